/** The wire format of members and invitations. */
import { z } from "zod";
import { CAPABILITIES, capabilitiesOf, effectiveRole, MEMBER_ROLES } from "../../core/domain/member.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import type { ReceivedInvitation } from "../../db/members/invitations.ts";
import type { Membership, MemberView } from "../../db/members/members.ts";
import type { Invitation } from "../../db/members/schema.ts";
import type { User, Wallet } from "../../db/schema.ts";
import { isoTime } from "../http/envelope.ts";

export const roleSchema = z.enum(MEMBER_ROLES).meta({ id: "MemberRole" });

export const memberSchema = z
  .object({
    userId: z.string(),
    email: z.string(),
    displayName: z.string().nullable(),
    role: roleSchema,
    effectiveRole: roleSchema.describe(
      "The role in effect: an owner is an operator until one of their passkeys owns the wallet on chain",
    ),
    isAccount: z.boolean().describe("The account itself, which cannot be removed"),
    createdAt: isoTime,
  })
  .meta({ id: "Member" });

export const invitationSchema = z
  .object({
    id: z.string(),
    email: z.string(),
    role: roleSchema,
    createdAt: isoTime,
    expiresAt: isoTime,
  })
  .meta({ id: "MemberInvitation" });

export const receivedInvitationSchema = z
  .object({
    id: z.string(),
    merchantId: z.string(),
    merchantName: z.string(),
    role: roleSchema,
    expiresAt: isoTime,
  })
  .meta({ id: "ReceivedInvitation" });

export const walletSchema = z
  .object({ address: z.string(), network: z.enum(NETWORK_IDS), deployed: z.boolean() })
  .meta({ id: "Wallet" });
export const walletsSchema = z.array(walletSchema);

export const merchantSchema = z
  .object({
    merchantId: z.string().describe("For the `X-Merchant` header, to act for this merchant"),
    name: z.string(),
    displayName: z.string().nullable(),
    role: roleSchema.describe("The role in effect; see /v1/members"),
    permissions: z.array(z.enum(CAPABILITIES)).describe("What the role allows"),
    wallets: walletsSchema,
  })
  .meta({ id: "Merchant" });

export function presentMember(member: MemberView): z.infer<typeof memberSchema> {
  const { userId, email, displayName, role, createdAt } = member;
  return {
    userId,
    email,
    displayName,
    role,
    effectiveRole: effectiveRole(role, member),
    isAccount: false,
    createdAt: createdAt.toISOString(),
  };
}

/** The account itself, as the first of its owners. */
export function presentAccount(user: User): z.infer<typeof memberSchema> {
  const { id: userId, email, displayName, createdAt } = user;
  const role = "owner" as const;
  return {
    userId,
    email,
    displayName,
    role,
    effectiveRole: role,
    isAccount: true,
    createdAt: createdAt.toISOString(),
  };
}

export function presentInvitation(invitation: Invitation): z.infer<typeof invitationSchema> {
  const { id, email, role, createdAt, expiresAt } = invitation;
  return { id, email, role, createdAt: createdAt.toISOString(), expiresAt: expiresAt.toISOString() };
}

export function presentReceived(invitation: ReceivedInvitation): z.infer<typeof receivedInvitationSchema> {
  const { id, merchantId, role, expiresAt, merchantEmail, merchantName } = invitation;
  const name = merchantName ?? defaultMerchantName(merchantEmail);
  return { id, merchantId, merchantName: name, role, expiresAt: expiresAt.toISOString() };
}

export function presentWallets(wallets: readonly Wallet[]): z.infer<typeof walletsSchema> {
  return wallets.map(({ address, network, deployedAt }) => ({
    address,
    network,
    deployed: deployedAt !== null,
  }));
}

export function presentMerchant(
  membership: Membership,
  wallets: readonly Wallet[],
): z.infer<typeof merchantSchema> {
  const { merchant } = membership;
  const role = effectiveRole(membership.role, membership);
  return {
    merchantId: merchant.id,
    name: merchant.displayName ?? defaultMerchantName(merchant.email),
    displayName: merchant.displayName,
    role,
    permissions: [...capabilitiesOf(role)],
    wallets: presentWallets(wallets),
  };
}
