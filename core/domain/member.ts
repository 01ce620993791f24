/**
 * Members of a merchant: other users who act for it in a role. A role is a list of capabilities, and each route names the one it needs.
 * Only an owner's passkey can move money: a send or refund needs `money:send`, which only the role owner has. `refunds:request`, which operators
 * and owners have, only requests a refund that an owner then signs.
 */
export const MEMBER_ROLES = ["owner", "operator", "accountant", "viewer"] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

const READING = [
  "links:read",
  "transactions:read",
  "wallet:read",
  "settings:read",
  "events:read",
  "members:read",
] as const;

export const CAPABILITIES = [
  ...READING,
  "links:write",
  "refunds:request",
  "exports",
  "transfers:assign",
  "money:send",
  "owners:manage",
  "settings:write",
  "keys:manage",
  "webhooks:manage",
  "members:manage",
  "trail:read",
] as const;
export type Capability = (typeof CAPABILITIES)[number];

const ROLES: Readonly<Record<MemberRole, readonly Capability[]>> = {
  owner: CAPABILITIES,
  operator: [...READING, "links:write", "refunds:request"],
  accountant: [...READING, "exports"],
  viewer: READING,
};

/** In the order of CAPABILITIES. */
export function capabilitiesOf(role: MemberRole): readonly Capability[] {
  return ROLES[role];
}

/**
 * What a route requires of its caller. `self`: nothing; it concerns the signed-in person, whichever merchant the request acts for. `account`: the
 * account itself, never a member.
 */
export type Need = Capability | "self" | "account";

export function mayRole(role: MemberRole, need: Need): boolean {
  return need === "self" || (need !== "account" && ROLES[role].includes(need));
}

/** The role of an owner member until one of the member's passkeys is an owner of the merchant's wallet on the chain. */
export const ROLE_BEFORE_CHAIN: MemberRole = "operator";

export function effectiveRole(role: MemberRole, { isOwnerOnChain }: { isOwnerOnChain: boolean }): MemberRole {
  return role === "owner" && !isOwnerOnChain ? ROLE_BEFORE_CHAIN : role;
}

export const MEMBERS_MAX = 100;
