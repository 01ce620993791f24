/**
 * An MCP server whose tool costs 0.02 USDC a call, sold through the facilitator. x402's binding for tools: an unpaid call is an error that
 * carries the terms, the payment comes in `_meta["x402/payment"]`, and its settlement leaves in `_meta["x402/payment-response"]`.
 */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { HTTPFacilitatorClient, x402ResourceServer } from "@x402/core/server";
import type { PaymentPayload, PaymentRequirements, SettleResponse } from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { z } from "zod";

const { FACILITATOR_URL, FACILITATOR_KEY, PAY_TO, NETWORK = "eip155:84532" } = process.env;
if (!FACILITATOR_URL || !FACILITATOR_KEY || !PAY_TO)
  throw new Error("FACILITATOR_URL, FACILITATOR_KEY and PAY_TO must be set; see examples/README.md");

const PAYMENT = "x402/payment";
const PAYMENT_RESPONSE = "x402/payment-response";
const PENDING_RETRIES_MAX = 5;

// the middleware does not store answers by the identifier that a payer may choose
const headers = { authorization: `Bearer ${FACILITATOR_KEY}`, prefer: "no-repeat" };
const facilitator = new HTTPFacilitatorClient({
  url: FACILITATOR_URL,
  createAuthHeaders: async () => ({ verify: headers, settle: headers, supported: headers }),
});
const network = NETWORK as `${string}:${string}`;
const seller = new x402ResourceServer(facilitator).register(network, new ExactEvmScheme());
await seller.initialize();
const accepts = await seller.buildPaymentRequirements({
  ...{ scheme: "exact", price: "$0.02", network, payTo: PAY_TO },
});
const resource = {
  url: "mcp://tool/forecast",
  description: "Tomorrow's weather in a city",
  mimeType: "application/json",
};

const mcp = new McpServer({ name: "paid-tool", version: "1.0.0" });
mcp.registerTool(
  "forecast",
  {
    description: `${resource.description}; costs 0.02 USDC, paid by x402`,
    inputSchema: { city: z.string() },
  },
  async ({ city }, { _meta }) => sell(_meta?.[PAYMENT], () => `${city}: sunny`),
);
await mcp.connect(new StdioServerTransport());

/** Verify, do the work, settle, and only then hand it over. */
async function sell(shown: unknown, work: () => string): Promise<CallToolResult> {
  if (typeof shown !== "object" || shown === null) return askForPayment("Payment required");
  const payment = shown as PaymentPayload;
  const terms = findTerms(payment);
  if (!terms) return askForPayment("The payment is for other terms");
  const verdict = await seller.verifyPayment(payment, terms);
  if (!verdict.isValid) return askForPayment(verdict.invalidReason ?? "Invalid payment");
  const text = work();
  const settled = await settle(payment, terms);
  if (!settled.success) return askForPayment(settled.errorReason ?? "Settlement failed", settled);
  return { content: [{ type: "text", text }], _meta: { [PAYMENT_RESPONSE]: settled } };
}

function findTerms(payment: PaymentPayload): PaymentRequirements | undefined {
  try {
    return seller.findMatchingRequirements(accepts, payment);
  } catch {
    // not a payment at all
    return undefined;
  }
}

/** A pending settlement is under way: the same payment again waits for it, and moves no money twice. */
async function settle(payment: PaymentPayload, terms: PaymentRequirements): Promise<SettleResponse> {
  for (let retries = 0; ; retries++) {
    const settled = await seller.settlePayment(payment, terms);
    if (settled.errorReason !== "settlement_pending" || retries === PENDING_RETRIES_MAX) return settled;
  }
}

/** `settled`: an attempt that failed, with its transaction if there is one. */
async function askForPayment(error: string, settled?: SettleResponse): Promise<CallToolResult> {
  const required = await seller.createPaymentRequiredResponse(accepts, resource, error);
  return {
    isError: true,
    structuredContent: required,
    content: [{ type: "text", text: JSON.stringify(required) }],
    ...(settled ? { _meta: { [PAYMENT_RESPONSE]: settled } } : {}),
  };
}
