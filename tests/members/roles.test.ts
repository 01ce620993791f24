/** What each role of a member includes. */
import { describe, expect, test } from "bun:test";
import {
  CAPABILITIES,
  type Capability,
  effectiveRole,
  MEMBER_ROLES,
  mayRole,
} from "../../core/domain/member.ts";

const READING: readonly Capability[] = [
  ...([
    "links:read",
    "transactions:read",
    "wallet:read",
    "settings:read",
    "events:read",
    "members:read",
  ] as const),
];

describe("a role", () => {
  test.each([
    ["owner", CAPABILITIES],
    ["operator", [...READING, "links:write", "refunds:request"]],
    ["accountant", [...READING, "exports"]],
    ["viewer", READING],
  ] as const)("%s includes the documented permissions, and nothing else", (role, included) => {
    expect(CAPABILITIES.filter((one) => mayRole(role, one))).toEqual([...included]);
  });

  test.each(MEMBER_ROLES)("%s includes one's own session, and never the account itself", (role) => {
    expect(mayRole(role, "self")).toBe(true);
    expect(mayRole(role, "account")).toBe(false);
  });

  test("of an owner counts as operator until the chain has the member's passkey", () => {
    expect(effectiveRole("owner", { isOwnerOnChain: false })).toBe("operator");
    for (const role of MEMBER_ROLES) expect(effectiveRole(role, { isOwnerOnChain: true })).toBe(role);
    for (const role of ["operator", "accountant", "viewer"] as const)
      expect(effectiveRole(role, { isOwnerOnChain: false })).toBe(role);
  });
});
