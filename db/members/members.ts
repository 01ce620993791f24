/** Members of a merchant, and whether a member's passkey owns the merchant's wallet. */
import type { MemberRole } from "../../core/domain/member.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { mayOwnWalletOf, ownsWalletOf } from "../auth/sign-in-passkeys.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import type { User } from "../schema.ts";
import { mayStillBeAdded } from "../wallet-ops/owner-changes.ts";
import { type Member, members } from "./schema.ts";

type SqlPart = ReturnType<Tx>;
type Key = { merchantId: string; userId: string };

export type Membership = { role: MemberRole; isOwnerOnChain: boolean; merchant: User };
type MembershipRow = User & Pick<Membership, "role" | "isOwnerOnChain">;

export async function findMembership(tx: Tx, { merchantId, userId }: Key): Promise<Membership | undefined> {
  const [row] = await tx<MembershipRow[]>`
    select ${membershipColumns(tx)}
    from members
    join users merchant on merchant.id = members.merchant_id
    where members.merchant_id = ${merchantId} and members.user_id = ${userId}`;
  return row && toMembership(row);
}

/** The merchants that a user may act for, oldest membership first. */
export async function listMemberships(tx: Tx, userId: string): Promise<Membership[]> {
  const rows = await tx<MembershipRow[]>`
    select ${membershipColumns(tx)}
    from members
    join users merchant on merchant.id = members.merchant_id
    where members.user_id = ${userId}
    order by members.created_at, members.merchant_id`;
  return rows.map(toMembership);
}

function membershipColumns(tx: Tx) {
  return tx`
    members.role, ${isOwnerOnChain(tx)} as is_owner_on_chain,
    merchant.id, merchant.email, merchant.display_name, merchant.status, merchant.created_at, merchant.updated_at,
    merchant.claim_policy, merchant.match_by_amount, merchant.relay_gas_per_day`;
}

function toMembership({ role, isOwnerOnChain, ...merchant }: MembershipRow): Membership {
  return { role, isOwnerOnChain, merchant };
}

/**
 * Whether the merchant prepared to add this very passkey as this member's. A public key alone proves nothing: anyone who has seen it on
 * the chain can register a credential with it.
 */
function wasAdded(tx: Tx, { merchantId, userId }: { merchantId: SqlPart; userId: SqlPart }) {
  return tx`exists (
    select from owner_changes addition
    where addition.user_id = ${merchantId}
      and addition.member_id = ${userId}
      and addition.action = 'ADD'
      and addition.owner = '0x' || encode(passkey.public_key_x || passkey.public_key_y, 'hex')
  )`;
}

/** Only a membership as owner is looked up on the chain's records. */
function isOwnerOnChain(tx: Tx) {
  return tx`(
    members.role = 'owner'
    and exists (
      select from passkeys passkey
      where passkey.user_id = members.user_id
        and ${ownsWalletOf(tx, tx`members.merchant_id`)}
        and ${wasAdded(tx, { merchantId: tx`members.merchant_id`, userId: tx`members.user_id` })}
    )
  )`;
}

export type MemberView = Member & { email: string; displayName: string | null; isOwnerOnChain: boolean };

/** Oldest first. */
export async function listMembers(tx: Tx, merchantId: string): Promise<MemberView[]> {
  return tx<MemberView[]>`
    select ${columnsOf(tx, members, "members")}, person.email, person.display_name, ${isOwnerOnChain(tx)} as is_owner_on_chain
    from members
    join users person on person.id = members.user_id
    where members.merchant_id = ${merchantId}
    order by members.created_at, members.user_id`;
}

export async function countMembers(tx: Tx, merchantId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from members where merchant_id = ${merchantId}`;
  return row?.count ?? 0;
}

/** Undefined when this user is already a member. */
export async function insertMember(
  tx: Tx,
  member: Key & { role: MemberRole; invitedBy: string },
): Promise<Member | undefined> {
  const [row] = await tx<Member[]>`
    insert into members (merchant_id, user_id, role, invited_by)
    values (${member.merchantId}, ${member.userId}, ${member.role}, ${member.invitedBy})
    on conflict do nothing
    returning ${columnsOf(tx, members)}`;
  return row;
}

/** Keeps role and membership unchanged until the transaction ends. False when there is no such member. */
export async function holdMember(tx: Tx, { merchantId, userId }: Key): Promise<boolean> {
  const rows = await tx`
    select from members
    where merchant_id = ${merchantId} and user_id = ${userId}
    for share`;
  return rows.length === 1;
}

/** Locks the row until the transaction ends: an owner change that adds this member's passkey waits for it, and it for the change. */
export async function lockMember(
  tx: Tx,
  { merchantId, userId }: Key,
): Promise<(Member & { email: string }) | undefined> {
  const [row] = await tx<(Member & { email: string })[]>`
    select ${columnsOf(tx, members, "members")}, person.email
    from members
    join users person on person.id = members.user_id
    where members.merchant_id = ${merchantId} and members.user_id = ${userId}
    for update of members`;
  return row;
}

/**
 * Locks the members whose passkey is one of these owners of their merchant's wallet, in one order, and returns those who by the chain's records are
 * owners of it no more. The locks wait for what such a member is making, and for the report of a removal on another network.
 */
export async function lockFormerOwners(
  tx: Tx,
  owners: readonly { merchantId: string; owner: Hex }[],
): Promise<(Member & { email: string; owner: Hex })[]> {
  const given = owners.map(({ merchantId, owner }) => ({ merchant_id: merchantId, owner }));
  const named = tx`
    from json_to_recordset(${JSON.stringify(given)}::text::json) as given (merchant_id text, owner text)
    join members on members.merchant_id = given.merchant_id
    join passkeys on passkeys.user_id = members.user_id
      and '0x' || encode(passkeys.public_key_x || passkeys.public_key_y, 'hex') = given.owner
    join users person on person.id = members.user_id
    where members.role = 'owner'`;
  await tx`
    select ${named}
    order by members.merchant_id, members.user_id
    for update of members`;
  // by a statement that starts after they are locked: another network's removal may have been committed meanwhile
  return tx<(Member & { email: string; owner: Hex })[]>`
    select ${columnsOf(tx, members, "members")}, person.email, given.owner
    ${named} and not ${isOwnerOnChain(tx)}
    order by members.merchant_id, members.user_id`;
}

/** Whether a passkey of this user is an owner of the merchant's wallet on a network, or may become one by an addition that is signed. */
export async function mayOwnOnChain(tx: Tx, { merchantId, userId }: Key): Promise<boolean> {
  const [row] = await tx<{ mayOwn: boolean }[]>`
    select exists (
      select from passkeys passkey
      where passkey.user_id = ${userId}
        and ${wasAdded(tx, { merchantId: tx`${merchantId}`, userId: tx`${userId}` })}
        and (
          ${mayOwnWalletOf(tx, tx`${merchantId}`)}
          or ${mayStillBeAdded(tx, tx`${merchantId}`)}
        )
    ) as may_own`;
  return row?.mayOwn ?? false;
}

export async function updateRole(
  tx: Tx,
  { merchantId, userId, role }: Key & { role: MemberRole },
): Promise<void> {
  await tx`
    update members
    set role = ${role}, updated_at = now()
    where merchant_id = ${merchantId} and user_id = ${userId}`;
}

export async function deleteMember(tx: Tx, { merchantId, userId }: Key): Promise<void> {
  await tx`delete from members where merchant_id = ${merchantId} and user_id = ${userId}`;
}
