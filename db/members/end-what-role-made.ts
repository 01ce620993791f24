/**
 * What a member made for a merchant and what outlasts a session: API keys, invitations that someone could still accept, and scheduled exports. Each
 * ends once the member's role no longer includes making it.
 */
import type { InvitationOutcome } from "../../core/domain/invitation.ts";
import { type MemberRole, mayRole } from "../../core/domain/member.ts";
import { type NewSecurityEvent, recordSecurityEvent } from "../accounts/security-events.ts";
import { revokeApiKeysOf } from "../api-keys/api-keys.ts";
import { recordEvents } from "../events/events.ts";
import { deleteSchedulesBy } from "../exports/export-schedules.ts";
import type { Tx } from "../postgres/client.ts";
import { listEndpoints } from "../webhooks/webhooks.ts";
import { revokeInvitationsBy } from "./invitations.ts";
import type { Invitation, Member } from "./schema.ts";

type By = Pick<NewSecurityEvent, "clientAddress" | "requestId" | "actorId">;

/**
 * Call with the member's row locked. `to`: the role that is left; undefined when the membership ends. Webhook endpoints belong to the merchant and
 * stay. Returns how many still send, for the security trail, when the member may have made or seen any of them and no longer may.
 */
export async function endWhatRoleMade(
  tx: Tx,
  { merchantId, userId, role }: Pick<Member, "merchantId" | "userId" | "role">,
  { to, by }: { to: MemberRole | undefined; by: By },
): Promise<{ webhookEndpoints?: number }> {
  if (!mayLeft(to, "keys:manage"))
    for (const { id, name } of await revokeApiKeysOf(tx, { userId: merchantId, createdBy: userId })) {
      const details = { keyId: id, name };
      await recordSecurityEvent(tx, { userId: merchantId, type: "api_key_revoked", ...by, details });
    }
  if (!mayLeft(to, "members:manage"))
    for (const invitation of await revokeInvitationsBy(tx, { merchantId, invitedBy: userId }))
      await recordInvitationEnd(tx, invitation, { outcome: "REVOKED", by });
  if (!mayLeft(to, "exports")) await deleteSchedulesBy(tx, { userId: merchantId, createdBy: userId });
  if (!mayRole(role, "webhooks:manage") || mayLeft(to, "webhooks:manage")) return {};
  const endpoints = await listEndpoints(tx, merchantId);
  return { webhookEndpoints: endpoints.filter(({ enabled }) => enabled).length };
}

const mayLeft = (to: MemberRole | undefined, need: Parameters<typeof mayRole>[1]) =>
  to !== undefined && mayRole(to, need);

export async function recordInvitationEnd(
  tx: Tx,
  { id, merchantId, email }: Invitation,
  { outcome, by }: { outcome: InvitationOutcome; by: By },
): Promise<void> {
  const details = { invitationId: id, email, outcome };
  await recordSecurityEvent(tx, { userId: merchantId, type: "member_invitation_ended", ...by, details });
  await recordEvents(tx, [
    { userId: merchantId, type: "member.invitation_ended", subjectId: id, data: { outcome } },
  ]);
}
