/** How long an invitation to become a member is valid (seven days), and how many of a merchant may be open (50). */

export type InvitationOutcome = "ACCEPTED" | "DECLINED" | "REVOKED";

export const INVITATION_LIFE_DAYS = 7;
export const OPEN_INVITATIONS_MAX = 50;
