/**
 * Changes and ends memberships. Both take effect immediately on every process, because each request reads its role. A member whose passkey owns
 * the wallet must first be removed as an owner on chain: the member list must not hide an owner who could still sign.
 */
import { conflict, notFound } from "../../core/domain/errors.ts";
import type { MemberRole } from "../../core/domain/member.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { recordEvents } from "../../db/events/events.ts";
import { endWhatRoleMade } from "../../db/members/end-what-role-made.ts";
import { deleteMember, lockMember, mayOwnOnChain, updateRole } from "../../db/members/members.ts";
import type { Member } from "../../db/members/schema.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { deleteSessionsActingFor } from "../../db/sessions/sessions.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";

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
    const left = await endWhatRoleMade(tx, member, { to: role, by: trace });
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
    const left = await endWhatRoleMade(tx, member, { to: undefined, by: trace });
    const isOwnWish = trace.actorId === key.userId;
    const details = { memberId: key.userId, email: member.email, role: member.role, isOwnWish, ...left };
    await record(tx, key, { type: "member_removed", trace, details });
    await recordEvents(tx, [
      { ...{ userId: key.merchantId, type: "member.removed", subjectId: key.userId }, data: { isOwnWish } },
    ]);
  });
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
