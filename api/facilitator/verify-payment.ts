/** Whether a payment would settle now: checks terms, window and signature locally, then simulates once on a node. Nothing is stored. */
import { simulatePayments } from "../../core/chain/relay.ts";
import { checkTerms, windowTimeS } from "../../core/domain/check-payment-terms.ts";
import { NO_LINK_TAG, tagOfNonce } from "../../core/domain/link-tag.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { standardReason } from "../../core/domain/payment.ts";
import { type RelayLimits, whyTooSmall } from "../../core/domain/relay-budget.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { findChainTime, isLinkTag } from "../../db/links/payable-links.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { PayTools } from "../x402/pay-tools.ts";
import { type PayerVerdict, verifyPayer } from "../x402/verify-payer.ts";
import type { FacilitatorRequest } from "./request.ts";

export type VerifyTools = Pick<PayTools<never>, "chains" | "sql"> & {
  config: RelayLimits;
  readChainTime: ChainTimeReader;
};

export type Verdict =
  | { ok: true; payer: Extract<PayerVerdict, { ok: true }> }
  | { ok: false; reason: string; message?: string };

const OF_A_LINK = "the nonce names a payment link, which alone can be paid with this authorization";
/** No verdict: no node is available. */
const UNEXPECTED_VERIFY_ERROR = "unexpected_verify_error";

/** Everything that can be checked without reading the authorization's state. */
export async function checkPayment(tools: VerifyTools, request: FacilitatorRequest): Promise<Verdict> {
  const { network, terms, attempt } = request;
  const tooSmall = whyTooSmall(terms.amountUnits, tools.config);
  if (tooSmall) return { ok: false, reason: tooSmall.reason, message: tooSmall.message };
  const verdict = checkTerms(
    attempt.authorization,
    terms,
    windowTimeS(await tools.readChainTime(network), new Date()),
  );
  if (!verdict.ok) return { ok: false, reason: standardReason(verdict.reason) };
  // made for the page of a link of ours: it counts for that link alone
  if (await isLinkTag(tools.sql, tagOfNonce(attempt.authorization.nonce)))
    return { ok: false, reason: standardReason("NONCE_USED"), message: OF_A_LINK };
  const payer = await verifyPayer(tools.chains.get(network), network, attempt);
  if (payer.ok) return { ok: true, payer };
  const reason = payer.retryable ? UNEXPECTED_VERIFY_ERROR : (payer.rule ?? standardReason(payer.reason));
  return { ok: false, reason, message: payer.message };
}

/** With a simulation on the chain, which sees a used nonce, the balance, blocked addresses and a paused token. */
export async function verifyPayment(tools: VerifyTools, request: FacilitatorRequest): Promise<Verdict> {
  const checked = await checkPayment(tools, request);
  return checked.ok ? simulate(tools, request.network, request, checked) : checked;
}

async function simulate(
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
    return result.ok ? checked : { ok: false, reason: standardReason(result.reason) };
  } catch (error) {
    if (!(error instanceof RpcTransportError)) throw error;
    return { ok: false, reason: UNEXPECTED_VERIFY_ERROR };
  }
}

type ChainTimeReader = (network: NetworkId) => Promise<Date | null>;

const CHAIN_TIME_FRESH_MS = 1_000;

/** Reads the time of a network's newest block from the indexer's cursor, at most once a second. */
export function openChainTimeReader(sql: Sql): ChainTimeReader {
  const known = new Map<NetworkId, { readAtMs: number; time: Date | null }>();
  return async (network) => {
    const cached = known.get(network);
    const readAtMs = performance.now();
    if (cached && readAtMs - cached.readAtMs < CHAIN_TIME_FRESH_MS) return cached.time;
    const time = await findChainTime(sql, network);
    known.set(network, { readAtMs, time });
    return time;
  };
}
