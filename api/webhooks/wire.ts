/** The wire format of webhook endpoints and deliveries. */
import { z } from "zod";
import { EVENT_TYPES } from "../../core/domain/event-types.ts";
import type { Attempt, Delivery } from "../../db/webhooks/deliveries.ts";
import type { WebhookEndpoint } from "../../db/webhooks/webhooks.ts";
import { isoTime, pageSchema, withMeta } from "../http/envelope.ts";

const DESCRIPTION_MAX = 200;
const URL_MAX = 2_000;

const url = z.string().min(1).max(URL_MAX);
const description = z
  .string()
  .max(DESCRIPTION_MAX)
  .refine((text) => text.isWellFormed() && !text.includes("\0"), "must be text");
const eventTypes = z.array(z.enum(EVENT_TYPES)).max(EVENT_TYPES.length);

/** Strict: with a misspelt `eventTypes` the endpoint would get every event. */
export const createBody = z.strictObject({
  url: url.describe("https on the public internet, port 443 or from 1024"),
  description: description.default(""),
  eventTypes: eventTypes.default([]).describe("All if empty"),
});
export const updateBody = z.strictObject({
  url: url.optional(),
  description: description.optional(),
  eventTypes: eventTypes.optional(),
  enabled: z.boolean().optional(),
});

/** Types about a link or transaction, whose message carries the whole object. */
const sampleTypes = EVENT_TYPES.filter((type) => /^(payment_link|transaction)\./.test(type));
export const testBody = z
  .strictObject({
    type: z
      .enum(sampleTypes)
      .default("payment_link.paid")
      .describe("The type of the sample message in `data.sample`"),
  })
  .optional();

const endpointFields = {
  id: z.string(),
  url: z.string(),
  description: z.string(),
  eventTypes: z.array(z.enum(EVENT_TYPES)),
  enabled: z.boolean(),
  disabledReason: z.string().nullable().describe("by_owner, gone (it answered 410), or failing"),
  failingSince: isoTime.nullable(),
  createdAt: isoTime,
  updatedAt: isoTime,
};
const endpoint = z.object(endpointFields).meta({ id: "WebhookEndpoint" });
const deliverySchema = z
  .object({
    id: z.string(),
    endpointId: z.string(),
    eventId: z.string().describe("The message id (webhook-id), the same in every attempt"),
    eventType: z.enum(EVENT_TYPES),
    state: z.enum(["PENDING", "DELIVERED", "FAILED"]),
    attempts: z.int(),
    nextTryAt: isoTime.nullable(),
    lastStatus: z.int().nullable(),
    lastError: z.string().nullable(),
    deliveredAt: isoTime.nullable(),
    createdAt: isoTime,
  })
  .meta({ id: "WebhookDelivery" });
const attemptSchema = z
  .object({
    number: z.int(),
    status: z.int().nullable(),
    error: z.string().nullable(),
    response: z.string().nullable().describe("The beginning of the response"),
    durationMs: z.int(),
    createdAt: isoTime,
  })
  .meta({ id: "WebhookAttempt" });

export const endpointSchema = withMeta(endpoint);
export const endpointWithSecretSchema = withMeta(
  z.object({ ...endpointFields, secret: z.string().describe("whsec_…, shown only once") }),
);
export const endpointListSchema = pageSchema(endpoint);
export const deliveryDetailSchema = withMeta(deliverySchema.extend({ attemptLog: z.array(attemptSchema) }));
export const deliveryAnswerSchema = withMeta(deliverySchema);
export const deliveryListSchema = pageSchema(deliverySchema);

export function presentEndpoint(row: WebhookEndpoint): z.infer<typeof endpoint> {
  return {
    id: row.id,
    url: row.url,
    description: row.description,
    eventTypes: row.eventTypes,
    enabled: row.enabled,
    disabledReason: row.disabledReason,
    failingSince: row.failingSince?.toISOString() ?? null,
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
  };
}

export function presentDelivery(row: Delivery): z.infer<typeof deliverySchema> {
  return {
    id: row.id,
    endpointId: row.endpointId,
    eventId: row.eventPublicId,
    eventType: row.eventType,
    state: row.state,
    attempts: row.attempts,
    nextTryAt: row.state === "PENDING" ? row.nextTryAt.toISOString() : null,
    lastStatus: row.lastStatus,
    lastError: row.lastError,
    deliveredAt: row.deliveredAt?.toISOString() ?? null,
    createdAt: row.createdAt.toISOString(),
  };
}

export function presentAttempt(row: Attempt): z.infer<typeof attemptSchema> {
  return { ...row, createdAt: row.createdAt.toISOString() };
}
