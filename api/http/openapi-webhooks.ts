/** The `webhooks` section of the OpenAPI document: the message of each event type as a merchant's endpoint receives it. */
import { EVENT_TYPES } from "../../core/domain/event-types.ts";

const header = (name: string, description: string) => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" },
});

/** Keyed by the names that webhook parameters refer to. */
export const webhookParameters = {
  "webhook-id": header("webhook-id", "The event's id, the same in every attempt: process each id once"),
  "webhook-timestamp": header("webhook-timestamp", "Time of this attempt in Unix seconds; refuse old ones"),
  "webhook-signature": header(
    "webhook-signature",
    "Standard Webhooks 1.0.0: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`; several, separated by spaces, during a rotation",
  ),
};

/** The same for all types except for the value of `type`. */
export const webhookMessage = {
  type: "object",
  properties: {
    type: { $ref: "#/components/schemas/EventType" },
    timestamp: { type: "string", format: "date-time", description: "When it happened" },
    data: {
      type: "object",
      description:
        "`subjectId`, fields that depend on the event's type, and the whole link or transaction as GET returns it at this attempt",
      properties: {
        subjectId: { type: "string" },
        link: { $ref: "#/components/schemas/PaymentLinkDetail" },
        transaction: { $ref: "#/components/schemas/Transaction" },
      },
      required: ["subjectId"],
    },
  },
  required: ["type", "timestamp", "data"],
};

export function describeWebhooks(): Record<string, object> {
  return Object.fromEntries(EVENT_TYPES.map((type) => [type, { post: describeOne(type) }]));
}

function describeOne(type: string) {
  return {
    operationId: `on${type.split(/[._]/).map(capitalize).join("")}`,
    parameters: Object.keys(webhookParameters).map((name) => ({ $ref: `#/components/parameters/${name}` })),
    requestBody: { $ref: "#/components/requestBodies/WebhookMessage" },
    responses: { "2XX": { $ref: "#/components/responses/WebhookReceived" } },
  };
}

const capitalize = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);
