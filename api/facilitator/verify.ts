/** Would this payment settle now? Terms, window and signature on the CPU, then one question to the chain; nothing is stored. */
import { simulatePayments } from "../../core/chain/relay.ts";
import { checkTerms } from "../../core/domain/authorization.ts";
import { NO_LINK_TAG } from "../../core/domain/link-tag.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { ChainClock } from "../x402/chain-time.ts";
import type { X402Deps } from "../x402/deps.ts";
import { whyTooSmall } from "../x402/relay-limits.ts";
import { stockReason } from "../x402/stock-reasons.ts";
import { type PayerVerdict, verifyPayer } from "../x402/verify-payer.ts";
import type { FacilitatorRequest } from "./request.ts";

export type VerifyTools = Pick<X402Deps, "chains" | "config"> & { clock: ChainClock };

export type Verdict =
  | { ok: true; payer: Extract<PayerVerdict, { ok: true }> }
  | { ok: false; reason: string; message?: string };

/** No verdict: the node is away. */
const UNEXPECTED_VERIFY_ERROR = "unexpected_verify_error";

/** Everything that can be known without asking for the authorization's state. */
export async function checkPayment(tools: VerifyTools, request: FacilitatorRequest): Promise<Verdict> {
  const { network, terms, attempt } = request;
  const tooSmall = whyTooSmall(terms.amountUnits, tools.config);
  if (tooSmall) return { ok: false, reason: tooSmall.reason, message: tooSmall.message };
  const verdict = checkTerms(attempt.authorization, terms, await tools.clock.nowS(network));
  if (!verdict.ok) return { ok: false, reason: stockReason(verdict.reason) };
  const payer = await verifyPayer(tools.chains.get(network), network, attempt);
  if (payer.ok) return { ok: true, payer };
  const reason = payer.retryable ? UNEXPECTED_VERIFY_ERROR : (payer.rule ?? stockReason(payer.reason));
  return { ok: false, reason, message: payer.message };
}

/** The same, and the chain's word: nonce, balance, blocks, pause. */
export async function verifyPayment(tools: VerifyTools, request: FacilitatorRequest): Promise<Verdict> {
  const checked = await checkPayment(tools, request);
  return checked.ok ? askChain(tools, request.network, request, checked) : checked;
}

async function askChain(
  tools: VerifyTools,
  network: NetworkId,
  { attempt, terms }: FacilitatorRequest,
  checked: Extract<Verdict, { ok: true }>,
): Promise<Verdict> {
  const chain = tools.chains.get(network);
  if (!chain) return { ok: false, reason: "invalid_network" };
  const { kind, signature } = checked.payer;
  const item = {
    isContract: kind === "CONTRACT",
    authorization: attempt.authorization,
    signature,
    tag: NO_LINK_TAG,
  };
  try {
    const [result] = await simulatePayments(chain, terms.payTo, [item]);
    if (!result) return { ok: false, reason: UNEXPECTED_VERIFY_ERROR };
    return result.ok ? checked : { ok: false, reason: stockReason(result.reason) };
  } catch (error) {
    if (!(error instanceof RpcTransportError)) throw error;
    return { ok: false, reason: UNEXPECTED_VERIFY_ERROR };
  }
}
