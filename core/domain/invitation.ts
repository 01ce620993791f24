/** How long an invitation of a member is valid, and how many may be open. */

export type InvitationOutcome = "ACCEPTED" | "DECLINED" | "REVOKED";

export const INVITATION_LIFE_DAYS = 7;
export const OPEN_INVITATIONS_MAX = 50;
