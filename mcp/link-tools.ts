/** Tools about payment links: create, read, wait, and request a refund. */
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";
import { compactLink, compactPayment, linkId } from "./compact-answers.ts";
import type { McpOptions } from "./options.ts";
import { answering, answerWith, reading, ToolRefusal } from "./tool-result.ts";
import { waitForPayment } from "./wait-for-payment.ts";

const WAIT_DEFAULT_S = 60;
const WAIT_MIN_S = 5;
const WAIT_MAX_S = 300;
const LISTED_MAX = 20;

const writing = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false };

/** A header value: invalid characters would otherwise fail only when it is sent. */
const idempotencyKey = z
  .string()
  .min(8)
  .max(200)
  .regex(/^[\x20-\x7e]+$/, "must be printable ASCII characters");

/** As the API does: the schema of a record would drop this key. */
function refuseProtoKey(metadata: unknown, { issues }: z.core.ParsePayload): unknown {
  if (typeof metadata === "object" && metadata !== null && Object.hasOwn(metadata, "__proto__"))
    issues.push({ code: "custom", message: "must not have the key __proto__", input: metadata });
  return metadata;
}

export function registerLinkTools(server: McpServer, options: McpOptions): void {
  const { links, refunds } = options.service;

  server.registerTool(
    "create_link",
    {
      title: "Create a payment link",
      description:
        "Creates a link that one payer can pay once, and returns its id, `url` (for a person) and `aiUrl` (for an agent that pays by x402). Moves no money. Pass your own order number as `reference`, and the same `idempotencyKey` when you repeat a call whose answer you did not get: then no second link is created.",
      inputSchema: z.strictObject({
        amount: z.number().positive().describe("USDC, at most 6 decimals; 12.5 is 12.50 USDC"),
        description: z.string().min(1).describe("What is paid for; the payer reads it"),
        reference: z.string().min(1).max(100).optional().describe("Your own order number"),
        expiresInHours: z.int().min(1).optional().describe("Default: the service's"),
        network: z
          .enum(["base", "base-sepolia"])
          .optional()
          .describe("base is real money; the default, base-sepolia, is test money that is worth nothing"),
        metadata: z.preprocess(refuseProtoKey, z.record(z.string(), z.string()).optional()).optional(),
        customerEmail: z.string().optional().describe("Receives the receipt by e-mail once the link is paid"),
        idempotencyKey: idempotencyKey.optional(),
      }),
      annotations: writing,
    },
    ({ idempotencyKey, ...given }) =>
      answering(async () => {
        const body = Object.fromEntries(
          Object.entries(given).filter(([, value]) => value !== undefined),
        ) as typeof given & { amount: number; description: string };
        return answerWith(compactLink(await links.create(body as never, { idempotencyKey })));
      }),
  );

  server.registerTool(
    "get_link",
    {
      title: "Read a payment link",
      description:
        "The current state of one link by `id`, or the newest links with your own order number by `reference`. `isPaid` is true only when the payment is final. To wait for a payment use wait_for_payment instead of calling this again and again.",
      inputSchema: z.strictObject({
        id: linkId.optional(),
        reference: z.string().min(1).max(100).optional(),
      }),
      annotations: reading,
    },
    ({ id, reference }) =>
      answering(async () => {
        if (id !== undefined) {
          const link = await links.get(id);
          const payments = link.maxPayments === 1 ? {} : { payments: await newestPayments(id) };
          return answerWith({ ...compactLink(link), ...payments });
        }
        if (reference === undefined)
          throw new ToolRefusal("VALIDATION_ERROR", "Neither id nor reference is given", "Pass one of them.");
        const found: Record<string, unknown>[] = [];
        for await (const link of links.list({ reference, limit: LISTED_MAX })) {
          found.push(compactLink(link));
          if (found.length >= LISTED_MAX) break;
        }
        return answerWith({ links: found });
      }),
  );

  server.registerTool(
    "wait_for_payment",
    {
      title: "Wait until a link is paid",
      description:
        "Waits for the link's payment and answers as soon as it is paid, expired or cancelled, at the latest after `timeoutSeconds`. `outcome` is PAID, EXPIRED, CANCELLED or STILL_WAITING. STILL_WAITING is not a failure: call again. For a reusable link it waits for the next payment from the call on: read those made between two calls with get_link. Reports progress.",
      inputSchema: z.strictObject({
        id: linkId,
        timeoutSeconds: z.number().min(WAIT_MIN_S).max(WAIT_MAX_S).default(WAIT_DEFAULT_S),
      }),
      annotations: reading,
    },
    ({ id, timeoutSeconds }, extra) =>
      answering(async () => {
        const signal = options.signal ? AbortSignal.any([options.signal, extra.signal]) : extra.signal;
        const progressToken = extra._meta?.progressToken;
        let progress = 0;
        const onProgress = (message: string) => {
          progress += 1;
          if (progressToken === undefined) return;
          const params = { progressToken, progress, message };
          // the signal shows that the caller has disconnected
          void extra.sendNotification({ method: "notifications/progress", params }).catch(() => undefined);
        };
        return answerWith(await waitForPayment(options.service, { id, timeoutSeconds, signal, onProgress }));
      }),
  );

  server.registerTool(
    "request_refund",
    {
      title: "Ask for a refund",
      description:
        "Asks the merchant to refund a paid link to whoever paid it. Moves no money: status REQUESTED means that the merchant has yet to sign it with a passkey in the dashboard, so do not tell anyone that the money was returned. Pass the same `idempotencyKey` when you repeat a call whose answer you did not get.",
      inputSchema: z.strictObject({
        linkId,
        amount: z
          .number()
          .positive()
          .optional()
          .describe("USDC; default: the remaining amount of the payment, or the surplus of an overpaid link"),
        reason: z.string().min(1).max(500).optional().describe("The merchant reads it before signing"),
        idempotencyKey: idempotencyKey.optional(),
      }),
      annotations: writing,
    },
    ({ linkId, amount, reason, idempotencyKey }) =>
      answering(async () => {
        const body = {
          ...(amount === undefined ? {} : { amount }),
          ...(reason === undefined ? {} : { reason }),
        };
        const {
          refundId,
          status,
          to,
          amount: asked,
          network,
          refundable,
        } = await refunds.request(linkId, body, { idempotencyKey });
        return answerWith({
          refundId,
          linkId,
          status,
          to,
          amount: asked,
          network,
          refundable,
          signAt: `${options.baseUrl}/links/${linkId}`,
        });
      }),
  );

  async function newestPayments(id: string) {
    const found: Record<string, unknown>[] = [];
    for await (const payment of links.payments(id, { limit: LISTED_MAX })) {
      found.push(compactPayment(payment));
      if (found.length >= LISTED_MAX) break;
    }
    return found;
  }
}
