/**
 * Monitors a network's relayed transactions until they are mined and deep: records receipts, resends, raises fees, replaces obsolete
 * transactions by no-ops, detects nonces used by external transactions and fills nonce gaps. One worker at a time does it; any worker can.
 */
import { buildNoopCall } from "../../core/chain/relay.ts";
import { SignerError } from "../../core/chain/remote-signer.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { isPassedOver, keepOnly } from "../../core/domain/raise-fees.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { parseQuantity, toQuantity } from "../../core/rpc/parse-answers.ts";
import { withWorkLock } from "../../db/postgres/work-lock.ts";
import { settleCharges } from "../../db/relays/budgets.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import {
  countMiss,
  findInFlight,
  findNonceGaps,
  hasUnfinished,
  type InFlightAttempt,
  type InFlightRelay,
  markLost,
  markMined,
} from "../../db/relays/relays.ts";
import type { RelayerKey } from "../relayer-keys-env.ts";
import { abandonDropped, decideResend } from "./decide-resend.ts";
import { followLedger } from "./follow-ledger.ts";
import { readReceipts } from "./record-receipts.ts";
import type { RelayNetwork } from "./relay-network.ts";
import { type Market, toUsedNonces } from "./relayer-lanes.ts";
import { raiseAttempt, resendAttempt } from "./replace-relay.ts";
import { sendAttempt, storeRelay } from "./send-relay.ts";
import { signAndCommit } from "./sign-and-commit.ts";
import { traceMined } from "./trace-relay.ts";

/** Page size and pages per pass: enough for hundreds of keys. */
const PAGE_RELAYS = 200;
const PAGES_MAX = 50;
/** The same bytes are sent again after this long without a receipt. */
const RESEND_AFTER_MS = 2_500;
/** A first send not recorded by then never happened, or its worker died. */
const UNSENT_AFTER_MS = 1_000;
/** Maximum age of the market data used for each relay of a pass. */
const MARKET_AGE_MS = 1_000;
/** Consecutive polls that must find the nonce used and none of our attempts mined before the relay counts as lost. */
const LOST_AFTER_POLLS = 8;
const GAPS_PER_PASS = 4;

/** One pass. Returns false when another worker monitors this network now. */
export async function monitorRelays(network: RelayNetwork): Promise<boolean> {
  const { deps, chain } = network;
  if (!(await hasUnfinished(deps.sql, chain.network.id, toUsedNonces(network.lanes.lastMarket())))) {
    network.firstHeads.clear();
    await reportMarket(network);
    return true;
  }
  return withWorkLock(deps.sql, `keep-relays:${chain.network.id}`, async () => {
    for await (const page of inFlightPages(network)) await recordReceipts(network, page);
    await followLedger(network);
    const busy = new Set<string>();
    const waiting = new Set<string>();
    for await (const page of inFlightPages(network)) {
      await resendPending(network, page);
      for (const { relayer, attempts } of page) {
        busy.add(relayer);
        for (const { txHash } of attempts) waiting.add(txHash);
      }
    }
    keepOnly(network.firstHeads, waiting);
    await fillNonceGaps(network, busy);
  });
}

/** All pending relays, page by page, so that no key waits behind another one with stuck transactions. */
async function* inFlightPages({ deps, chain }: RelayNetwork): AsyncGenerator<InFlightRelay[]> {
  let after: InFlightRelay | undefined;
  for (let count = 0; count < PAGES_MAX; count++) {
    const page = await findInFlight(deps.sql, chain.network.id, { after, limit: PAGE_RELAYS });
    if (page.length > 0) yield page;
    after = page.at(-1);
    if (page.length < PAGE_RELAYS) return;
  }
}

async function recordReceipts(network: RelayNetwork, inFlight: readonly InFlightRelay[]): Promise<void> {
  const { deps, chain } = network;
  const receipts = await readReceipts(chain, inFlight);
  if (receipts.length === 0) return;
  await deps.sql.begin(async (tx) => {
    await markMined(tx, receipts);
    await settleCharges(
      tx,
      receipts.map(({ relayId }) => relayId),
    );
  });
  await traceMined(network, receipts);
  const label = { network: chain.network.id };
  for (const receipt of receipts) {
    network.metrics.relays.inc({ ...label, outcome: receipt.succeeded ? "succeeded" : "reverted" });
    network.metrics.gasUsed.inc(label, Number(receipt.gasUsed));
    network.metrics.feeWei.inc(label, Number(receipt.feeWei));
    network.metrics.minedSeconds.observe(label, receipt.ageMs / 1000);
    deps.log.info(
      {
        ...label,
        txHash: receipt.txHash,
        block: receipt.blockNumber.toString(),
        succeeded: receipt.succeeded,
        gasUsed: receipt.gasUsed.toString(),
      },
      "relayed transaction mined",
    );
  }
}

/** Resends pending relays, raises their fees, or gives them up when their nonce is used. Keys in parallel, each in the order of its nonces. */
async function resendPending(network: RelayNetwork, inFlight: readonly InFlightRelay[]): Promise<void> {
  const market = await network.lanes.readMarket(0);
  const obsolete = await findObsolete(network, inFlight);
  const retired = await readRetiredNonces(network, inFlight);
  const lanes = Map.groupBy(inFlight, ({ relayer }) => relayer);
  const outcomes = await Promise.allSettled(
    [...lanes.values()].map(async (relays) => {
      // one that is needed can be mined only after those before it
      const neededUpTo = relays.findLastIndex(({ id }) => !obsolete.has(id));
      for (const [index, relay] of relays.entries()) {
        const usedUpTo = retired.get(relay.relayer);
        const need = { isObsolete: obsolete.has(relay.id), isNeeded: index <= neededUpTo };
        await advanceRelay(network, relay, { market, usedUpTo, ...need });
      }
    }),
  );
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed) throw failed.reason;
}

async function findObsolete(
  { deps, kinds }: RelayNetwork,
  inFlight: readonly InFlightRelay[],
): Promise<Set<bigint>> {
  const obsolete = new Set<bigint>();
  for (const [kind, relays] of Map.groupBy(inFlight, (relay) => relay.kind)) {
    const relayIds = relays.map(({ id }) => id);
    for (const id of (await kinds[kind].findObsolete?.(deps.sql, relayIds)) ?? []) obsolete.add(id);
  }
  return obsolete;
}

/** The next nonces of keys that this worker does not have: their owner may use them up elsewhere, by withdrawing their ETH. */
async function readRetiredNonces(
  { chain, lanes }: RelayNetwork,
  inFlight: readonly InFlightRelay[],
): Promise<Map<Hex, bigint>> {
  const own = new Set(lanes.keys.map(({ address }) => address));
  const retired = [...new Set(inFlight.map(({ relayer }) => relayer))].filter((relayer) => !own.has(relayer));
  if (retired.length === 0) return new Map();
  const outcomes = await chain.batch(
    retired.map((relayer) => ({ method: "eth_getTransactionCount", params: [relayer, "latest"] })),
  );
  return new Map(
    retired.flatMap((relayer, index): [Hex, bigint][] => {
      const outcome = outcomes[index];
      return outcome?.ok ? [[relayer, parseQuantity(outcome.result, "eth_getTransactionCount")]] : [];
    }),
  );
}

type Pass = { market: Market; usedUpTo: bigint | undefined; isObsolete: boolean; isNeeded: boolean };

async function advanceRelay(
  network: RelayNetwork,
  relay: InFlightRelay,
  { market, usedUpTo, isObsolete, isNeeded }: Pass,
): Promise<void> {
  const lane = market.lanes.find(({ key }) => key.address === relay.relayer);
  const chainNonce = lane?.chainNonce ?? usedUpTo;
  if (chainNonce !== undefined && relay.nonce < chainNonce)
    return countMissingReceipt(network, relay, { ...market, chainNonce });
  if (!relay.attempts.every(({ hasBytes }) => hasBytes)) return abandonDropped(network, relay);
  const newest = relay.attempts.at(-1);
  if (!newest) return;
  // a retired key signs nothing new: its stored bytes are resent while they are needed
  const canRaise = lane !== undefined;
  if (!canRaise && !isNeeded) return;
  const isDue = isResendDue(newest);
  const isPassed = canRaise && isPassedOver(network.firstHeads, newest, market.headNumber);
  if (!isDue && !isPassed && !relay.isReopened) return;
  // the sends before it may have taken long
  const fresh = await network.lanes.readMarket(MARKET_AGE_MS);
  const verdict = await decideResend(network, relay, { newest, isObsolete, market: fresh });
  // while the ledger can't tell, only bytes that a node has already accepted are sent again
  const isLikeNew = relay.isReopened || relay.state === "SIGNED";
  // the next pass requests a new head
  if (verdict === "outdated" || (verdict === "early" && isLikeNew)) {
    network.metrics.resendsDeferred.inc({ network: network.chain.network.id, why: verdict });
    return;
  }
  // an expired one that a node has may already be mined
  const isReplaced = verdict === "less" && (isLikeNew || !isObsolete);
  if (isPassed || (canRaise && isReplaced)) {
    if (await raiseAttempt(network, relay, { market: fresh, isObsolete, isReplaced })) return;
  }
  // at the cap or without budget: obsolete contents have expired, or are executed once whichever relay is mined; others must not be sent
  if (verdict === "less" && !isObsolete) return;
  const isJudged = !newest.isNoop && network.kinds[relay.kind].revise !== undefined;
  if (isDue)
    await resendAttempt(network, relay, { newest, judgedAtMs: isJudged ? fresh.askedAtMs : undefined });
}

function isResendDue({ sinceSentMs, ageMs }: InFlightAttempt): boolean {
  return sinceSentMs === null ? ageMs > UNSENT_AFTER_MS : sinceSentMs > RESEND_AFTER_MS;
}

async function countMissingReceipt(
  network: RelayNetwork,
  relay: InFlightRelay,
  { chainNonce, headNumber }: { chainNonce: bigint; headNumber: bigint },
): Promise<void> {
  const { deps, chain, kinds, usedSeenAt } = network;
  const [receipt] = await readReceipts(chain, [relay]);
  if (receipt) {
    usedSeenAt.delete(relay.id);
    return;
  }
  // the nonce was read after the head: a block in between may have used it, so the head is outdated
  if (!usedSeenAt.has(relay.id) && !(await isNonceUsedAt(chain, relay, headNumber))) return;
  const seenAtBlock = usedSeenAt.get(relay.id) ?? headNumber;
  usedSeenAt.set(relay.id, seenAtBlock);
  const misses = await countMiss(deps.sql, relay.id);
  if (misses < LOST_AFTER_POLLS) return;
  const isLost = await deps.sql.begin(async (tx) => {
    if (!(await markLost(tx, relay.id, seenAtBlock))) return false;
    await kinds[relay.kind].requeueLost?.(tx, chain.network.id, relay.id);
    // further nonces used by external transactions are skipped together
    await ensureLane(tx, { network: chain.network.id, relayer: relay.relayer }, chainNonce);
    await settleCharges(tx, [relay.id]);
    return true;
  });
  if (!isLost) return;
  usedSeenAt.delete(relay.id);
  deps.log.error(
    { network: chain.network.id, relayer: relay.relayer, nonce: relay.nonce.toString() },
    "relayer nonce used by an external transaction; the relay is LOST",
  );
}

async function isNonceUsedAt(
  chain: Chain,
  { relayer, nonce }: InFlightRelay,
  blockNumber: bigint,
): Promise<boolean> {
  const count = await chain.request("eth_getTransactionCount", [relayer, toQuantity(blockNumber)]);
  return nonce < parseQuantity(count, "eth_getTransactionCount");
}

/**
 * A nonce without a transaction blocks all later ones: a no-op uses it. An exhausted fee budget does not stop it: the transactions behind the
 * gap, which have their place in the budget, would wait for the next day, and expire.
 */
async function fillNonceGaps(network: RelayNetwork, busy: ReadonlySet<string>): Promise<void> {
  const { deps, chain } = network;
  const market = await reportMarket(network);
  for (const { key, chainNonce } of market.lanes) {
    const lane = { network: chain.network.id, relayer: key.address };
    const gaps = busy.has(key.address) ? await findNonceGaps(deps.sql, lane, chainNonce, GAPS_PER_PASS) : [];
    for (const nonce of gaps) {
      await fillNonceGap(network, key, { fees: market.fees, nonce });
    }
  }
}

/** This worker's view of head, base fee and balances, from its nodes. */
export async function reportMarket({ chain, lanes, metrics }: RelayNetwork): Promise<Market> {
  const market = await lanes.readMarket();
  metrics.baseFeeWei.set({ network: chain.network.id }, Number(market.baseFeePerGas));
  metrics.headAgeSeconds.set({ network: chain.network.id }, market.headAgeS);
  for (const { key, balanceWei } of market.lanes)
    metrics.balanceWei.set({ network: chain.network.id, relayer: key.address }, Number(balanceWei));
  return market;
}

async function fillNonceGap(
  network: RelayNetwork,
  key: RelayerKey,
  { fees, nonce }: { fees: Market["fees"]; nonce: bigint },
): Promise<void> {
  const { deps, chain } = network;
  const label = { network: chain.network.id, relayer: key.address, nonce: nonce.toString() };
  const call = buildNoopCall(key.address);
  const dailyFeeMaxWei = deps.config.relayDailyFeeMaxWei;
  try {
    const relay = await signAndCommit(network, key, (tx, signing) =>
      storeRelay(tx, chain, signing, {
        kind: "NOOP",
        call,
        fees,
        nonce,
        dailyFeeMaxWei,
        mayExceedFeeBudget: true,
      }),
    );
    await sendAttempt(deps, chain, relay);
    deps.log.warn(label, "nonce gap filled");
  } catch (error) {
    // already reported; the next pass tries again
    if (error instanceof SignerError) return;
    throw error;
  }
}

/** The next pass retries. */
export function isNodeUnavailable(error: unknown): boolean {
  return error instanceof RpcTransportError;
}
