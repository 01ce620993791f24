/** Invites a person by e-mail address, whether or not they have an account: the response does not reveal it. */
import { conflict, notFound } from "../../core/domain/errors.ts";
import { newInvitationId } from "../../core/domain/ids.ts";
import { OPEN_INVITATIONS_MAX } from "../../core/domain/invitation.ts";
import { MEMBERS_MAX, type MemberRole } from "../../core/domain/member.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { lockUser } from "../../db/accounts/users.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { recordInvitationEnd } from "../../db/members/end-what-role-made.ts";
import {
  answerInvitation,
  insertInvitation,
  listOpenInvitations,
  revokeInvitation,
} from "../../db/members/invitations.ts";
import { countMembers, insertMember, listMembers } from "../../db/members/members.ts";
import type { Invitation } from "../../db/members/schema.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { User } from "../../db/schema.ts";
import { holdAccess } from "../http/act-for-merchant.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { Caller } from "../http/caller.ts";
import type { ApiDeps } from "../http/deps.ts";

type Deps = Pick<ApiDeps, "sql">;
type By = { trace: Trace; caller: Caller };

/**
 * An open invitation to the same address is replaced. Throws CONFLICT for the merchant's own address, a member's, or too many open ones,
 * FORBIDDEN or UNAUTHORIZED when the caller's access has ended.
 */
export async function inviteMember(
  { sql }: Deps,
  { email, role, trace, caller }: { email: string; role: MemberRole } & By,
): Promise<Invitation> {
  const merchant = caller.user;
  return sql.begin(async (tx) => {
    await holdAccess(tx, caller, "members:manage");
    if (email === merchant.email)
      throw conflict("This is the address of the account itself", { field: "email", issue: "own_address" });
    if ((await listMembers(tx, merchant.id)).some((member) => member.email === email))
      throw conflict("This person is already a member: change the role instead", {
        field: "email",
        issue: "already_member",
      });
    const others = (await listOpenInvitations(tx, merchant.id)).filter((open) => open.email !== email);
    if (others.length >= OPEN_INVITATIONS_MAX)
      throw conflict(`At most ${OPEN_INVITATIONS_MAX} invitations can be open; revoke one first`, {
        issue: "too_many_invitations",
      });
    const id = newInvitationId();
    const invitation = await insertInvitation(tx, {
      id,
      merchantId: merchant.id,
      email,
      role,
      invitedBy: caller.actorId,
    });
    await recordSecurityEvent(tx, {
      userId: merchant.id,
      type: "member_invited",
      ...trace,
      details: { invitationId: id, email, role },
    });
    await recordEvents(tx, [{ userId: merchant.id, type: "member.invited", subjectId: id, data: { role } }]);
    await enqueue(tx, "send_invitation", { invitationId: id, requestId: trace.requestId });
    return invitation;
  });
}

/** Throws NOT_FOUND when the merchant has no such open invitation. */
export async function endInvitation(
  { sql }: Deps,
  { merchant, id, trace }: { merchant: User; id: string; trace: Trace },
): Promise<Invitation> {
  return sql.begin(async (tx) => {
    const ended = await revokeInvitation(tx, { id, merchantId: merchant.id });
    if (!ended) throw notFound("Invitation");
    await recordInvitationEnd(tx, ended, { outcome: "REVOKED", by: trace });
    return ended;
  });
}

/** The person with the invited address becomes a member. Throws NOT_FOUND for an unknown, expired or ended invitation, and another address's. */
export async function acceptInvitation(
  { sql }: Deps,
  { person, id, trace }: { person: User; id: string; trace: Trace },
): Promise<Invitation> {
  return sql.begin(async (tx) => {
    const accepted = await answerInvitation(tx, { id, email: person.email, outcome: "ACCEPTED" });
    if (!accepted) throw notFound("An open invitation to your address");
    const { merchantId, role, invitedBy } = accepted;
    await lockUser(tx, merchantId);
    if ((await countMembers(tx, merchantId)) >= MEMBERS_MAX)
      throw conflict(`This merchant already has ${MEMBERS_MAX} members`, { issue: "too_many_members" });
    await insertMember(tx, { merchantId, userId: person.id, role, invitedBy });
    const details = { memberId: person.id, email: person.email, role };
    await recordSecurityEvent(tx, { userId: merchantId, type: "member_joined", ...trace, details });
    await recordEvents(tx, [
      { userId: merchantId, type: "member.joined", subjectId: person.id, data: { role } },
    ]);
    await notify(tx, [merchantId]);
    return accepted;
  });
}

/** Throws NOT_FOUND like accepting. */
export async function declineInvitation(
  { sql }: Deps,
  { person, id, trace }: { person: User; id: string; trace: Trace },
): Promise<Invitation> {
  return sql.begin(async (tx) => {
    const declined = await answerInvitation(tx, { id, email: person.email, outcome: "DECLINED" });
    if (!declined) throw notFound("An open invitation to your address");
    await recordInvitationEnd(tx, declined, { outcome: "DECLINED", by: trace });
    return declined;
  });
}
