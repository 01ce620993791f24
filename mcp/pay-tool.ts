/**
 * pay_link: pays a link of this service with the caller's own key, within limits set by whoever starts the server. It exists
 * over stdio only: a key that was sent to the service would make the service its custodian.
 *
 * A payment whose outcome is unknown is kept, and the next call for its link sends the same signed bytes again: the service answers with
 * the outcome of that payment, and a second one is never signed before it is known. A payment of a call that its client cancelled is
 * reported by the next call for its link, instead of made a second time. The signer enforces the limits (limit-signer.ts),
 * without trusting the service's responses.
 */
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";
import { PaymentError } from "../sdk/errors.ts";
import {
  type Attempt,
  type Payment,
  type Signer,
  sendPayment,
  signPayment,
  UnknownOutcomeError,
} from "../sdk/pay-link.ts";
import type { PublicPaymentLink } from "../sdk/wire.ts";
import { limitSigner } from "./limit-signer.ts";
import type { McpOptions } from "./options.ts";
import type { Spending } from "./spending.ts";
import { answering, answerWith, ToolRefusal } from "./tool-result.ts";

export type Payer = {
  account: Signer;
  /** The only network on which it pays. */
  chainId: number;
  spending: Spending;
  fetch?: typeof fetch | undefined;
  /** How long a call waits for the outcome. */
  waitMs?: number | undefined;
};

type Wanted = { maxAmount: number; amount: number | undefined; signal: AbortSignal };
type Answer = { paid: true; amount: string; isEarlierPayment?: true } & Record<string, unknown>;

const WAIT_MS = 45_000;
/** After its authorization has expired, blocks that hold it may still be read for this long. */
const SETTLING_S = 120;
const LINK_ID = /(?:^|\/)(link_[A-Za-z0-9_-]{22})\/?$/;

export function registerPayTool(server: McpServer, { service, baseUrl }: McpOptions, payer: Payer): void {
  const { account, chainId, spending } = payer;
  const network = chainId === 8453 ? "base" : "base-sepolia";
  const sending = () => ({ fetch: payer.fetch, waitMs: payer.waitMs ?? WAIT_MS });
  /** By link. One call at a time pays it. */
  const unknown = new Map<string, Attempt>();
  /** Payments whose call was cancelled, so that nobody got its answer; by link. */
  const unreported = new Map<string, Answer>();
  const busy = new Set<string>();
  let signing: Promise<unknown> = Promise.resolve();

  server.registerTool(
    "pay_link",
    {
      title: "Pay a payment link",
      description: `Pays a payment link of ${baseUrl} with USDC of ${account.address} on ${network}. This spends the user's money and cannot be undone: call it only when the user asked for this payment, with \`maxAmount\` as the most that the user agreed to. Call it once: when it returns OUTCOME_UNKNOWN, call it again with the same link, which asks about that payment and never pays twice. Limits that the user has set also apply.`,
      inputSchema: z.strictObject({
        link: z.string().describe("The link's id, url or aiUrl"),
        maxAmount: z.number().positive().describe("USDC; nothing is paid if the link's amount is higher"),
        amount: z
          .number()
          .positive()
          .optional()
          .describe("USDC, only for links whose payer chooses the amount"),
      }),
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    },
    ({ link, maxAmount, amount }, { signal }) =>
      answering(async () => {
        const id = readLinkId(link, baseUrl);
        if (busy.has(id))
          throw new ToolRefusal(
            "BUSY",
            `${id} is being paid by another call`,
            "Wait for that call's answer.",
          );
        busy.add(id);
        try {
          const payment = await payOrReport(id, { maxAmount, amount, signal });
          if (signal.aborted) unreported.set(id, payment);
          return answerWith({ ...payment, linkId: id, sessionLimitLeft: formatUnits(spending.leftUnits) });
        } finally {
          busy.delete(id);
        }
      }),
  );

  async function payOrReport(id: string, wanted: Wanted): Promise<Answer> {
    const made = unreported.get(id);
    unreported.delete(id);
    if (made) return { ...made, isEarlierPayment: true };
    const earlier = unknown.get(id);
    if (earlier) return resume(id, earlier);
    return pay(id, wanted).catch(async (error: unknown) => {
      // paid with this key before a restart or by another process, whose response may have been lost
      const isPaid = error instanceof PaymentError && error.code === "LINK_ALREADY_PAID";
      const seen = isPaid ? await service.links.public(id).catch(() => undefined) : undefined;
      if (!seen?.amount || !isPaidByUs(seen)) throw error;
      return presentSeen(seen, toUnits(seen.amount));
    });
  }

  function isPaidByUs({ status, payer }: PublicPaymentLink): boolean {
    return status === "PAID" && payer?.toLowerCase() === account.address.toLowerCase();
  }

  async function pay(id: string, wanted: Wanted): Promise<Answer> {
    // serialised: two calls that read the limit concurrently would both be within it
    const signed = signing.then(() => signWithinLimits(id, wanted));
    signing = signed.catch(() => undefined);
    return send(id, await signed);
  }

  async function signWithinLimits(id: string, { maxAmount, amount, signal }: Wanted): Promise<Attempt> {
    const wanted = toUnits(maxAmount);
    const allowedUnits = spending.allowed(wanted);
    const spend = (units: bigint) => {
      // the last moment at which a cancelled call costs nothing
      signal.throwIfAborted();
      spending.spend(units);
    };
    const signer = limitSigner(account, { chainId, allowedUnits, spend });
    const attempt = await signPayment(`${baseUrl}/v1/x402/${id}`, signer, {
      maxAmount: Number(allowedUnits) / 1e6,
      amount,
      chainIds: [chainId],
      fetch: payer.fetch,
    }).catch((error: unknown) => {
      if (error instanceof PaymentError && error.code === "OVER_LIMIT" && allowedUnits < wanted)
        throw new ToolRefusal(
          "SPENDING_LIMIT",
          `${error.message}: the user's limit; ${formatUnits(spending.leftUnits)} USDC are left in this session`,
          "Nothing was paid. Tell the user; only the user can raise the limit, by starting this server again. Do not split the payment.",
        );
      throw error;
    });
    unknown.set(id, attempt);
    return attempt;
  }

  async function send(id: string, attempt: Attempt): Promise<Answer> {
    try {
      const payment = await sendPayment(attempt, sending());
      unknown.delete(id);
      return present(payment);
    } catch (error) {
      // a refusal is final: the same bytes are refused again. Only one for a used nonce leaves open where the money went
      if (error instanceof PaymentError && error.code !== "NONCE_USED") unknown.delete(id);
      throw error;
    }
  }

  /** First asks the service about the earlier payment, by its bytes; once they have expired, by the link. */
  async function resume(id: string, attempt: Attempt): Promise<Answer> {
    const expiredS = Date.now() / 1_000 - attempt.validBefore;
    if (expiredS <= 0) return { ...(await send(id, attempt)), isEarlierPayment: true };
    const seen = await service.links.public(id);
    if (isPaidByUs(seen)) {
      unknown.delete(id);
      return presentSeen(seen, BigInt(attempt.amount));
    }
    if (seen.status === "PENDING" || expiredS < SETTLING_S || seen.reusable)
      throw new UnknownOutcomeError(attempt);
    unknown.delete(id);
    throw new ToolRefusal(
      "NOT_PAID",
      "The service reports that the earlier payment was not made and can no longer be made; it still counts towards this session's limit",
      "Call again to pay the link, if the user still wants that.",
    );
  }
}

function present({ txHash, paymentId, amountUnits }: Payment): Answer {
  return { paid: true, amount: formatUnits(amountUnits), txHash, ...(paymentId ? { paymentId } : {}) };
}

function presentSeen({ transactionHash }: PublicPaymentLink, units: bigint): Answer {
  return { paid: true, amount: formatUnits(units), txHash: transactionHash, isEarlierPayment: true };
}

/** Only links of this service: another URL could request money for anyone. */
function readLinkId(link: string, baseUrl: string): string {
  const id = LINK_ID.exec(link)?.[1];
  const isHere = !link.includes("://") || originOf(link) === originOf(baseUrl);
  if (id && isHere) return id;
  throw new ToolRefusal(
    "NOT_A_LINK",
    `${link} is not a payment link of ${baseUrl}`,
    "Nothing was paid. Pass the id, url or aiUrl of a link of this service.",
  );
}

function originOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).origin : undefined;
}

const toUnits = (usdc: number) => BigInt(Math.round(usdc * 1e6));

function formatUnits(units: bigint): string {
  const digits = units.toString().padStart(7, "0");
  return `${digits.slice(0, -6)}.${digits.slice(-6)}`;
}
