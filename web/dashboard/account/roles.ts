/** Roles in words. */
import type { Merchant } from "../frame/merchant.ts";
import { say } from "../frame/texts.ts";

export type Role = Merchant["role"];

export const ROLES: readonly Role[] = ["accountant", "viewer", "operator", "owner"];

const NAMES: Readonly<Record<Role, string>> = {
  owner: "Owner",
  operator: "Operator",
  accountant: "Accountant",
  viewer: "Viewer",
};
const MAY: Readonly<Record<Role, string>> = {
  owner: "Everything; signs once the passkey is an owner of the wallet",
  operator: "Creates links, requests refunds",
  accountant: "Reads everything, creates exports",
  viewer: "Reads",
};

export const nameOfRole = (role: Role) => say(NAMES[role]);
export const whatRoleMay = (role: Role) => say(MAY[role]);
