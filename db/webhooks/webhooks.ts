/** Webhook endpoints: subscribed event types, state and secrets. A row without a user is a deleted endpoint. */

import type { EventType } from "../../core/domain/event-types.ts";
import type { Tx } from "../postgres/client.ts";

export type WebhookEndpoint = {
  id: string;
  userId: string;
  url: string;
  description: string;
  /** Empty: every type. */
  eventTypes: EventType[];
  sealedSecret: Uint8Array;
  sealedOldSecret: Uint8Array | null;
  oldSecretUntil: Date | null;
  enabled: boolean;
  disabledReason: string | null;
  failingSince: Date | null;
  createdAt: Date;
  updatedAt: Date;
};

/** URLs may also contain secrets. */
const DELETED_URL = "https://deleted.invalid/";

function columns(tx: Tx) {
  return tx`
    id, user_id, url, description, event_types, sealed_secret, sealed_old_secret, old_secret_until, enabled, disabled_reason,
    failing_since, created_at, updated_at`;
}

/** Undefined when the user has `most` endpoints. */
export async function insertEndpoint(
  tx: Tx,
  given: Pick<WebhookEndpoint, "id" | "userId" | "url" | "description" | "eventTypes" | "sealedSecret">,
  most: number,
): Promise<WebhookEndpoint | undefined> {
  await tx`select pg_advisory_xact_lock(hashtext('webhook endpoints of user'), hashtext(${given.userId}))`;
  const [row] = await tx<WebhookEndpoint[]>`
    insert into webhook_endpoints (id, user_id, url, description, event_types, sealed_secret)
    select
      ${given.id}, ${given.userId}, ${given.url}, ${given.description}, ${given.eventTypes}::text[],
      ${Buffer.from(given.sealedSecret)}::bytea
    where (select count(*) from webhook_endpoints where user_id = ${given.userId}) < ${most}
    returning ${columns(tx)}`;
  return row;
}

/** A user's own endpoint. */
export async function findEndpoint(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<WebhookEndpoint | undefined> {
  const [row] = await tx<WebhookEndpoint[]>`
    select ${columns(tx)}
    from webhook_endpoints
    where id = ${id} and user_id = ${userId}`;
  return row;
}

export async function listEndpoints(tx: Tx, userId: string): Promise<WebhookEndpoint[]> {
  return tx<WebhookEndpoint[]>`
    select ${columns(tx)}
    from webhook_endpoints
    where user_id = ${userId}
    order by created_at, id`;
}

export type EndpointChange = Partial<Pick<WebhookEndpoint, "url" | "description" | "eventTypes" | "enabled">>;

/** Omitted fields are unchanged. Enabling clears the reason of disabling; another URL has not failed yet. */
export async function updateEndpoint(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
  change: EndpointChange,
): Promise<WebhookEndpoint | undefined> {
  const [row] = await tx<WebhookEndpoint[]>`
    update webhook_endpoints
    set
      url = coalesce(${change.url ?? null}, url),
      description = coalesce(${change.description ?? null}, description),
      event_types = coalesce(${change.eventTypes ?? null}::text[], event_types),
      enabled = coalesce(${change.enabled ?? null}::boolean, enabled),
      disabled_reason = case
        when ${change.enabled ?? null}::boolean is null then disabled_reason
        when ${change.enabled ?? null}::boolean then null
        else 'by_owner'
      end,
      failing_since = case
        when ${change.enabled ?? false}::boolean or ${change.url ?? null}::text <> url then null
        else failing_since
      end,
      updated_at = now()
    where id = ${id} and user_id = ${userId}
    returning ${columns(tx)}`;
  return row;
}

/** A row without user, secrets and URL stays for its deliveries in flight, until housekeeping has deleted its log. */
export async function deleteEndpoint(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<boolean> {
  const result = await tx`
    update webhook_endpoints
    set
      user_id = null, enabled = false, url = ${DELETED_URL}, description = '',
      sealed_secret = '', sealed_old_secret = null, old_secret_until = null, updated_at = now()
    where id = ${id} and user_id = ${userId}`;
  return result.count > 0;
}

/** The current secret becomes the old one and still signs for `oldLifeH` hours. */
export async function rotateSecret(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
  { sealedSecret, oldLifeH }: { sealedSecret: Uint8Array; oldLifeH: number },
): Promise<WebhookEndpoint | undefined> {
  const [row] = await tx<WebhookEndpoint[]>`
    update webhook_endpoints
    set
      sealed_old_secret = sealed_secret,
      old_secret_until = now() + make_interval(hours => ${oldLifeH}::int),
      sealed_secret = ${Buffer.from(sealedSecret)}::bytea,
      updated_at = now()
    where id = ${id} and user_id = ${userId}
    returning ${columns(tx)}`;
  return row;
}

/** Disables an endpoint whose URL is gone or keeps failing. False when it has another URL by now, or is disabled. */
export async function disableEndpoint(
  tx: Tx,
  { id, url }: { id: string; url: string },
  reason: "gone" | "failing",
): Promise<boolean> {
  const result = await tx`
    update webhook_endpoints
    set enabled = false, disabled_reason = ${reason}, updated_at = now()
    where id = ${id} and url = ${url} and enabled`;
  return result.count > 0;
}

export type SealedSecret = Pick<WebhookEndpoint, "id" | "sealedSecret" | "sealedOldSecret">;

/** Of all users, by id; without old secrets that no longer sign. */
export async function listSealedSecrets(
  tx: Tx,
  page: { afterId: string; limit: number },
): Promise<SealedSecret[]> {
  return tx<SealedSecret[]>`
    select id, sealed_secret, case when old_secret_until > now() then sealed_old_secret end as sealed_old_secret
    from webhook_endpoints
    where id > ${page.afterId} and user_id is not null
    order by id
    limit ${page.limit}`;
}

/** Stores the same secret under another seal. False when the secret was changed or deleted concurrently. */
export async function replaceSealedSecret(
  tx: Tx,
  given: { id: string; column: "sealedSecret" | "sealedOldSecret"; sealed: Uint8Array; renewed: Uint8Array },
): Promise<boolean> {
  const column = tx(given.column === "sealedSecret" ? "sealed_secret" : "sealed_old_secret");
  const rows = await tx`
    update webhook_endpoints
    set ${column} = ${Buffer.from(given.renewed)}::bytea
    where id = ${given.id} and ${column} = ${Buffer.from(given.sealed)}::bytea
    returning id`;
  return rows.length > 0;
}
