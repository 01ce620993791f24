/** Creates, changes and deletes webhook endpoints, and rotates their secrets. Each is recorded in the security trail. */
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import type { EventType } from "../../core/domain/event-types.ts";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { seal } from "../../core/domain/seal-secrets.ts";
import type { SecurityEventType } from "../../core/domain/security-event.ts";
import { ENDPOINTS_MAX, newWebhookSecret, OLD_SECRET_LIFE_H } from "../../core/domain/webhook.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Delivery } from "../../db/webhooks/deliveries.ts";
import { recordTestEvent } from "../../db/webhooks/test-events.ts";
import {
  deleteEndpoint,
  type EndpointChange,
  findEndpoint,
  insertEndpoint,
  rotateSecret,
  updateEndpoint,
  type WebhookEndpoint,
} from "../../db/webhooks/webhooks.ts";
import { holdAccess } from "../http/act-for-merchant.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { Caller } from "../http/caller.ts";
import type { ApiDeps } from "../http/deps.ts";
import { whyNotAnEndpoint } from "./endpoint-url.ts";

type Deps = Pick<ApiDeps, "sql" | "config">;
type Own = { id: string; userId: string };
type By = { caller: Caller; trace: Trace };
type EndpointEvent = { type: SecurityEventType; changed?: string; enabled?: boolean };
export type WithSecret = { endpoint: WebhookEndpoint; secret: string };

/** Throws VALIDATION_ERROR for an invalid URL, CONFLICT at the limit of endpoints. */
export async function createEndpoint(
  { sql, config }: Deps,
  by: By,
  given: { url: string; description: string; eventTypes: EventType[] },
): Promise<WithSecret> {
  refuseUrl(config, given.url);
  const id = newWebhookEndpointId();
  const secret = newWebhookSecret();
  const sealedSecret = seal(config.webhookSealKeys, { purpose: "webhook secret", id }, secret);
  const userId = by.caller.user.id;
  const endpoint = await changeRecorded(sql, by, { type: "webhook_endpoint_created" }, async (tx) => {
    const row = await insertEndpoint(tx, { ...given, id, userId, sealedSecret }, ENDPOINTS_MAX);
    if (!row) throw conflict(`You have ${ENDPOINTS_MAX} webhook endpoints; delete one first`);
    return row;
  });
  return { endpoint, secret };
}

/** Enabling it sends the messages held back while it was disabled. */
export async function changeEndpoint(
  { sql, config }: Deps,
  by: By,
  { id, ...change }: EndpointChange & { id: string },
): Promise<WebhookEndpoint> {
  if (change.url !== undefined) refuseUrl(config, change.url);
  const { enabled, ...fields } = change;
  const event = {
    type: "webhook_endpoint_changed" as const,
    ...(Object.keys(fields).length > 0 && { changed: Object.keys(fields).join(", ") }),
    ...(enabled !== undefined && { enabled }),
  };
  return changeRecorded(sql, by, event, async (tx) => {
    const row = await updateEndpoint(tx, { id, userId: by.caller.user.id }, change);
    if (row && change.enabled) await enqueue(tx, "deliver_webhooks", {});
    return row;
  });
}

export async function removeEndpoint({ sql }: Pick<Deps, "sql">, by: By, id: string): Promise<void> {
  const own = { id, userId: by.caller.user.id };
  await changeRecorded(sql, by, { type: "webhook_endpoint_deleted" }, async (tx) => {
    const row = await findEndpoint(tx, own);
    return (await deleteEndpoint(tx, own)) ? row : undefined;
  });
}

export async function rotateEndpointSecret({ sql, config }: Deps, by: By, id: string): Promise<WithSecret> {
  const own = { id, userId: by.caller.user.id };
  const secret = newWebhookSecret();
  const sealedSecret = seal(config.webhookSealKeys, { purpose: "webhook secret", id }, secret);
  const endpoint = await changeRecorded(sql, by, { type: "webhook_secret_rotated" }, (tx) =>
    rotateSecret(tx, own, { sealedSecret, oldLifeH: OLD_SECRET_LIFE_H }),
  );
  return { endpoint, secret };
}

/**
 * An endpoint outlasts whoever created or changed it, so the security trail names them. It does not contain the URL, which may hold a secret.
 * Throws NOT_FOUND when `change` finds no endpoint.
 */
async function changeRecorded(
  sql: Deps["sql"],
  { caller, trace }: By,
  { type, ...details }: EndpointEvent,
  change: (tx: Tx) => Promise<WebhookEndpoint | undefined>,
): Promise<WebhookEndpoint> {
  return sql.begin(async (tx) => {
    await holdAccess(tx, caller, "webhooks:manage");
    const endpoint = await change(tx);
    if (!endpoint) throw notFound("Webhook endpoint");
    const { host } = new URL(endpoint.url);
    await recordSecurityEvent(tx, {
      ...{ userId: caller.user.id, type, ...trace },
      details: { endpointId: endpoint.id, host, ...details },
    });
    return endpoint;
  });
}

/** Queued like every event, for this endpoint alone. Throws CONFLICT while it is disabled. */
export async function sendTestEvent(
  { sql }: Pick<Deps, "sql">,
  { id, userId }: Own,
  sampleType: EventType = "payment_link.paid",
): Promise<Delivery> {
  const delivery = await sql.begin((tx) => recordTestEvent(tx, { endpointId: id, userId, sampleType }));
  if (delivery) return delivery;
  if (!(await findEndpoint(sql, { id, userId }))) throw notFound("Webhook endpoint");
  throw conflict("This endpoint is disabled; enable it first", { field: "enabled", issue: "disabled" });
}

function refuseUrl(config: Deps["config"], url: string): void {
  const fault = whyNotAnEndpoint(url, config.webhookPrivateTargets);
  if (fault) throw invalid("url", fault);
}
