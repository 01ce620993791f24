/** Invitations to become a member: one open invitation per merchant and address, accepted once by the user with that address. */
import { INVITATION_LIFE_DAYS, type InvitationOutcome } from "../../core/domain/invitation.ts";
import type { MemberRole } from "../../core/domain/member.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Invitation, memberInvitations } from "./schema.ts";

export type NewInvitation = {
  id: string;
  merchantId: string;
  email: string;
  role: MemberRole;
  invitedBy: string;
};

/** Ends the open invitation of the same address, if there is one. Call under the merchant's lock. */
export async function insertInvitation(tx: Tx, invitation: NewInvitation): Promise<Invitation> {
  await tx`
    update member_invitations
    set outcome = 'REVOKED', ended_at = now()
    where merchant_id = ${invitation.merchantId} and email = ${invitation.email} and outcome is null`;
  const [row] = await tx<Invitation[]>`
    insert into member_invitations (id, merchant_id, email, role, invited_by, expires_at)
    values (
      ${invitation.id},
      ${invitation.merchantId},
      ${invitation.email},
      ${invitation.role},
      ${invitation.invitedBy},
      now() + make_interval(days => ${INVITATION_LIFE_DAYS})
    )
    returning ${columnsOf(tx, memberInvitations)}`;
  if (!row) throw new Error("insert into member_invitations returned no row");
  return row;
}

/** Open ones that have not expired, newest first. */
export async function listOpenInvitations(tx: Tx, merchantId: string): Promise<Invitation[]> {
  return tx<Invitation[]>`
    select ${columnsOf(tx, memberInvitations)}
    from member_invitations
    where merchant_id = ${merchantId} and outcome is null and expires_at > now()
    order by created_at desc, id`;
}

export type ReceivedInvitation = Invitation & { merchantEmail: string; merchantName: string | null };

/** Open invitations to this address, newest first. */
export async function listInvitationsTo(tx: Tx, email: string): Promise<ReceivedInvitation[]> {
  return tx<ReceivedInvitation[]>`
    select ${columnsOf(tx, memberInvitations, "invitation")}, merchant.email as merchant_email, merchant.display_name as merchant_name
    from member_invitations invitation
    join users merchant on merchant.id = invitation.merchant_id
    where invitation.email = ${email} and invitation.outcome is null and invitation.expires_at > now()
    order by invitation.created_at desc, invitation.id`;
}

/** By the person it was sent to. Undefined when it is unknown, another address's, expired or has ended. */
export async function answerInvitation(
  tx: Tx,
  { id, email, outcome }: { id: string; email: string; outcome: Exclude<InvitationOutcome, "REVOKED"> },
): Promise<Invitation | undefined> {
  const [row] = await tx<Invitation[]>`
    update member_invitations
    set outcome = ${outcome}, ended_at = now()
    where id = ${id} and email = ${email} and outcome is null and expires_at > now()
    returning ${columnsOf(tx, memberInvitations)}`;
  return row;
}

/** By the merchant. Undefined when the merchant has no such open invitation. */
export async function revokeInvitation(
  tx: Tx,
  { id, merchantId }: { id: string; merchantId: string },
): Promise<Invitation | undefined> {
  const [row] = await tx<Invitation[]>`
    update member_invitations
    set outcome = 'REVOKED', ended_at = now()
    where id = ${id} and merchant_id = ${merchantId} and outcome is null
    returning ${columnsOf(tx, memberInvitations)}`;
  return row;
}

/** Ends the open invitations that a member made for a merchant, and returns them. */
export async function revokeInvitationsBy(
  tx: Tx,
  { merchantId, invitedBy }: { merchantId: string; invitedBy: string },
): Promise<Invitation[]> {
  return tx<Invitation[]>`
    update member_invitations
    set outcome = 'REVOKED', ended_at = now()
    where merchant_id = ${merchantId} and invited_by = ${invitedBy} and outcome is null
    returning ${columnsOf(tx, memberInvitations)}`;
}

/** An invitation whose e-mail is still to be sent; undefined once it was sent, or when it is no longer open. */
export async function findUnsentInvitation(tx: Tx, id: string): Promise<ReceivedInvitation | undefined> {
  const [row] = await tx<ReceivedInvitation[]>`
    select ${columnsOf(tx, memberInvitations, "invitation")}, merchant.email as merchant_email, merchant.display_name as merchant_name
    from member_invitations invitation
    join users merchant on merchant.id = invitation.merchant_id
    where invitation.id = ${id}
      and invitation.sent_at is null
      and invitation.outcome is null
      and invitation.expires_at > now()`;
  return row;
}

export async function markInvitationSent(tx: Tx, id: string): Promise<void> {
  await tx`update member_invitations set sent_at = now() where id = ${id}`;
}
