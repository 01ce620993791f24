/**
 * Changes and ends memberships. Both take effect immediately on every process, because each request reads its role. A member whose passkey owns
 * the wallet must first be removed as an owner on chain: the member list must not hide an owner who could still sign.
 */
import { conflict, notFound } from "../../core/domain/errors.ts";
import { type MemberRole, mayRole } from "../../core/domain/member.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { revokeApiKeysOf } from "../../db/api-keys/api-keys.ts";
import { recordEvents } from "../../db/events/events.ts";
import { deleteSchedulesBy } from "../../db/exports/export-schedules.ts";
import { revokeInvitationsBy } from "../../db/members/invitations.ts";
import { deleteMember, lockMember, mayOwnOnChain, updateRole } from "../../db/members/members.ts";
import type { Member } from "../../db/members/schema.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { deleteSessionsActingFor } from "../../db/sessions/sessions.ts";
import { listEndpoints } from "../../db/webhooks/webhooks.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { recordEnd } from "./invite.ts";

type Named = { merchantId: string; userId: string; trace: Trace };

/** Throws NOT_FOUND, and CONFLICT when an owner of the wallet would get a lesser role. */
export async function changeRole(
  { sql }: Pick<ApiDeps, "sql">,
  { role, trace, ...key }: Named & { role: MemberRole },
): Promise<void> {
  await sql.begin(async (tx) => {
    const member = await getLocked(tx, key);
    if (member.role === role) return;
    if (role !== "owner") await refuseOwnerOnChain(tx, key);
    await updateRole(tx, { ...key, role });
    if (member.role === "owner") await revokeWhatTheyMade(tx, key, trace);
    if (!mayRole(role, "exports"))
      await deleteSchedulesBy(tx, { userId: key.merchantId, createdBy: key.userId });
    const left = mayRole(role, "webhooks:manage") ? {} : await countEndpointsLeft(tx, key, member);
    const details = { memberId: key.userId, email: member.email, from: member.role, to: role, ...left };
    await record(tx, key, { type: "member_role_changed", trace, details });
    await recordEvents(tx, [
      {
        userId: key.merchantId,
        type: "member.role_changed",
        subjectId: key.userId,
        data: { from: member.role, to: role },
      },
    ]);
  });
}

/**
 * Ending a membership also ends the sessions that acted for the merchant, and the API keys, open invitations and scheduled exports that the
 * member created. Throws NOT_FOUND, and CONFLICT for an owner of the wallet.
 */
export async function endMembership({ sql }: Pick<ApiDeps, "sql">, { trace, ...key }: Named): Promise<void> {
  await sql.begin(async (tx) => {
    const member = await getLocked(tx, key);
    await refuseOwnerOnChain(tx, key);
    await deleteMember(tx, key);
    await deleteSessionsActingFor(tx, key);
    await revokeWhatTheyMade(tx, key, trace);
    await deleteSchedulesBy(tx, { userId: key.merchantId, createdBy: key.userId });
    const isOwnWish = trace.actorId === key.userId;
    const left = await countEndpointsLeft(tx, key, member);
    const details = { memberId: key.userId, email: member.email, role: member.role, isOwnWish, ...left };
    await record(tx, key, { type: "member_removed", trace, details });
    await recordEvents(tx, [
      { ...{ userId: key.merchantId, type: "member.removed", subjectId: key.userId }, data: { isOwnWish } },
    ]);
  });
}

/** Revokes what outlasts an owner's session: API keys, and invitations that someone could still accept. */
async function revokeWhatTheyMade(tx: Tx, key: Omit<Named, "trace">, trace: Trace): Promise<void> {
  const made = { merchantId: key.merchantId, invitedBy: key.userId };
  const keys = await revokeApiKeysOf(tx, { userId: key.merchantId, createdBy: key.userId });
  for (const { id, name } of keys)
    await record(tx, key, { type: "api_key_revoked", trace, details: { keyId: id, name } });
  for (const invitation of await revokeInvitationsBy(tx, made))
    await recordEnd(tx, invitation, { outcome: "REVOKED", trace });
}

/** Webhook endpoints belong to the merchant and stay. The trail says how many still send: the member may have made or seen any of them. */
async function countEndpointsLeft(
  tx: Tx,
  { merchantId }: Pick<Named, "merchantId">,
  { role }: Member,
): Promise<{ webhookEndpoints?: number }> {
  if (!mayRole(role, "webhooks:manage")) return {};
  const endpoints = await listEndpoints(tx, merchantId);
  return { webhookEndpoints: endpoints.filter(({ enabled }) => enabled).length };
}

async function getLocked(tx: Tx, key: Omit<Named, "trace">): Promise<Member & { email: string }> {
  const member = await lockMember(tx, key);
  if (member) return member;
  throw notFound("Member");
}

async function refuseOwnerOnChain(tx: Tx, key: Omit<Named, "trace">): Promise<void> {
  if (!(await mayOwnOnChain(tx, key))) return;
  throw conflict(
    "A passkey of this member is an owner of the wallet, is being added, or is in a failed addition that could still be executed: remove it on every network first, or make another owner change, which uses up the addition's nonce (/v1/wallets/owners)",
    { field: "userId", issue: "owner_on_chain" },
  );
}

type Recorded = Pick<Parameters<typeof recordSecurityEvent>[1], "type" | "details"> & { trace: Trace };

/** Recorded in the merchant's security trail; a notification ends or refreshes open streams. */
async function record(tx: Tx, { merchantId }: Omit<Named, "trace">, { trace, ...event }: Recorded) {
  await recordSecurityEvent(tx, { userId: merchantId, ...event, ...trace });
  await notify(tx, [merchantId]);
}
