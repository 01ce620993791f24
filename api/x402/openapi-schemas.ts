/** x402 in the OpenAPI document. Its schemas are written by hand, because each body has four forms. */
import { z } from "zod";
import { PAYMENT_REFUSALS, PAYMENT_STATES, type PaymentRefusal } from "../../core/domain/payment.ts";
import { documentedBody, documentedResponses } from "../http/documented-responses.ts";
import { errorSchema, isoTime } from "../http/envelope.ts";
import { takesHeaders } from "../http/openapi-headers.ts";

const REASONS = Object.keys(PAYMENT_REFUSALS) as [PaymentRefusal, ...PaymentRefusal[]];

const requirements = z
  .object({
    x402Version: z.literal(1),
    error: z.string().nullable().describe("Null while the link can be paid"),
    message: z.string().optional(),
    accepts: z.array(z.looseObject({ scheme: z.string(), network: z.string() })).max(1),
  })
  .describe("Payment required; version 2 is in the PAYMENT-REQUIRED header")
  .meta({ id: "PaymentRequirements" });

const outcomeFields = z.object({
  success: z.boolean(),
  txHash: z.string().nullable(),
  networkId: z.string().nullable(),
  error: z.enum([...REASONS, "SETTLEMENT_PENDING"]).nullable(),
  message: z.string().optional(),
  settled: z.boolean().optional(),
  paymentId: z.string().optional(),
  logIndex: z.int().nullable().optional(),
  statusUrl: z.string().optional(),
  retryable: z.boolean().optional(),
});
const outcome = outcomeFields.describe("The outcome of the payment").meta({ id: "PaymentOutcome" });
export type Outcome = z.infer<typeof outcomeFields>;

const payment = outcomeFields
  .extend({
    state: z.enum(PAYMENT_STATES),
    blockNumber: z.int().nullable(),
    createdAt: isoTime,
    updatedAt: isoTime,
  })
  .describe("The state of one payment")
  .meta({ id: "Payment" });

const refused = z.union([outcome, errorSchema]);

const authorization = z
  .object({
    from: z.string(),
    to: z.string(),
    value: z.string().describe("Micro-USDC"),
    nonce: z.string().describe("32 bytes in hex"),
    validAfter: z.union([z.int(), z.string()]).describe("Unix seconds"),
    validBefore: z.union([z.int(), z.string()]).describe("Unix seconds"),
    data: z.string().optional(),
    signature: z.string().optional().describe("Either signature, or v, r and s"),
    v: z.int().optional(),
    r: z.string().optional(),
    s: z.string().optional(),
  })
  .meta({ id: "TransferAuthorization" });

const payBody = z
  .object({
    network: z.string(),
    scheme: z.string().optional(),
    x402Version: z.int().optional(),
    payload: z.union([
      authorization,
      z
        .object({ authorization: z.looseObject({}), signature: z.string() })
        .describe("The payload as standard clients send it"),
    ]),
  })
  .meta({ id: "PayRequest" });

const outcomes = {
  200: outcome,
  202: outcome,
  400: refused,
  402: requirements,
  403: outcome,
  404: refused,
  409: outcome,
  413: errorSchema,
  422: outcome,
  429: errorSchema,
  431: errorSchema,
  500: refused,
};

const OPERATIONS = {
  read: {
    operationId: "getPaymentRequirements",
    summary: "The payment terms of a link (402); with a payment header, settles it",
  },
  readPay: { operationId: "getPayRequirements", summary: "The same as GET without /pay" },
  post: {
    operationId: "postPayment",
    summary: "The same as GET, for clients that send their payment header with POST",
  },
  pay: { operationId: "pay", summary: "Pay a link with a signed ERC-3009 authorization" },
  payment: { operationId: "getPayment", summary: "The state of one payment" },
} as const;

const AMOUNT = {
  name: "amount",
  in: "query",
  description: "USDC, where the payer chooses",
  schema: { type: "string" },
} as const;

/** The operations under one prefix; `suffix` distinguishes their names from those of the other prefix. */
export function documentX402(suffix: "" | "ShapeB") {
  const named = (operation: keyof typeof OPERATIONS) => ({
    summary: OPERATIONS[operation].summary,
    operationId: OPERATIONS[operation].operationId + suffix,
  });
  const settles = {
    responses: documentedResponses(outcomes, "Payment"),
    parameters: takesHeaders("X-PAYMENT", "PAYMENT-SIGNATURE", "Idempotency-Key", "Accept-Language"),
  };
  return {
    read: {
      ...named("read"),
      description:
        "A 402 with `accepts` names amount, recipient and token. x402 clients sign an authorization for it and send it in X-PAYMENT (version 1) or PAYMENT-SIGNATURE (version 2). Repeating an accepted payment returns the same response.",
      ...settles,
      parameters: [...settles.parameters, AMOUNT],
    },
    readPay: { ...named("readPay"), ...settles },
    post: { ...named("post"), ...settles },
    pay: { ...named("pay"), requestBody: documentedBody(payBody.optional()), ...settles },
    payment: {
      ...named("payment"),
      responses: documentedResponses({ 200: payment, 404: errorSchema, 429: errorSchema }),
    },
  };
}
