/** Creates webhook endpoints, changes them and rotates their secrets. */
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import type { EventType } from "../../core/domain/event-types.ts";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { seal } from "../../core/domain/seal-secrets.ts";
import { ENDPOINTS_MAX, newWebhookSecret, OLD_SECRET_LIFE_H } from "../../core/domain/webhook.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import type { Delivery } from "../../db/webhooks/deliveries.ts";
import { recordTestEvent } from "../../db/webhooks/test-events.ts";
import {
  type EndpointChange,
  findEndpoint,
  insertEndpoint,
  rotateSecret,
  updateEndpoint,
  type WebhookEndpoint,
} from "../../db/webhooks/webhooks.ts";
import type { ApiDeps } from "../http/deps.ts";
import { whyNotAnEndpoint } from "./endpoint-url.ts";

type Deps = Pick<ApiDeps, "sql" | "config">;
type Own = { id: string; userId: string };
export type WithSecret = { endpoint: WebhookEndpoint; secret: string };

/** Throws VALIDATION_ERROR for an invalid URL, CONFLICT at the limit of endpoints. */
export async function createEndpoint(
  { sql, config }: Deps,
  given: { userId: string; url: string; description: string; eventTypes: EventType[] },
): Promise<WithSecret> {
  refuseUrl(config, given.url);
  const id = newWebhookEndpointId();
  const secret = newWebhookSecret();
  const sealedSecret = seal(config.webhookSealKeys, { purpose: "webhook secret", id }, secret);
  const endpoint = await sql.begin((tx) => insertEndpoint(tx, { ...given, id, sealedSecret }, ENDPOINTS_MAX));
  if (!endpoint) throw conflict(`You have ${ENDPOINTS_MAX} webhook endpoints; delete one first`);
  return { endpoint, secret };
}

/** Enabling it sends the messages held back while it was disabled. */
export async function changeEndpoint(
  { sql, config }: Deps,
  own: Own,
  change: EndpointChange,
): Promise<WebhookEndpoint> {
  if (change.url !== undefined) refuseUrl(config, change.url);
  const endpoint = await sql.begin(async (tx) => {
    const row = await updateEndpoint(tx, own, change);
    if (row && change.enabled) await enqueue(tx, "deliver_webhooks", {});
    return row;
  });
  if (!endpoint) throw notFound("Webhook endpoint");
  return endpoint;
}

export async function rotateEndpointSecret({ sql, config }: Deps, own: Own): Promise<WithSecret> {
  const secret = newWebhookSecret();
  const sealedSecret = seal(config.webhookSealKeys, { purpose: "webhook secret", id: own.id }, secret);
  const endpoint = await rotateSecret(sql, own, { sealedSecret, oldLifeH: OLD_SECRET_LIFE_H });
  if (!endpoint) throw notFound("Webhook endpoint");
  return { endpoint, secret };
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
