/** The relayer keys of one network as lanes: fees, balance and load of each, read from the node at most once a second. */

import type { Hex } from "../../core/domain/networks.ts";
import { type Fees, nextFees } from "../../core/domain/raise-fees.ts";
import { judgeBudget, type RelayBudget } from "../../core/domain/relay-budget.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { openStalledNodeDetector } from "../../core/rpc/detect-stalled-nodes.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { RpcCall, RpcOutcome } from "../../core/rpc/node.ts";
import { parseData, parseQuantity } from "../../core/rpc/parse-answers.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { findBudget } from "../../db/relays/budgets.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { readLaneLoads, type UsedNonces } from "../../db/relays/relays.ts";
import type { RelayerKey } from "../relayer-keys-env.ts";
import { isAvoided } from "./signer-failures.ts";

/** Maximum unmined transactions per lane. */
const IN_FLIGHT_MAX = 16;
const FRESH_MS = 1_000;

export type LaneState = { key: RelayerKey; balanceWei: bigint; chainNonce: bigint };
/** `headTimeS`: time of the newest block in Unix seconds. All data is at least as recent as `headNumber`. */
export type Market = {
  /** When the node was queried and when it responded, by `performance.now()`. */
  askedAtMs: number;
  readAtMs: number;
  headNumber: bigint;
  headHash: Hex;
  headTimeS: bigint;
  /** By our clock, when the node responded; 0 for a block from the future. */
  headAgeS: number;
  /**
   * Whether the head is too old to represent the chain: blocks that the node lacks may already pay what is about to be signed.
   * Happens when the node has stopped following the chain, or the chain has stopped.
   */
  isStalled: boolean;
  baseFeePerGas: bigint;
  /** The node's suggested tip, if any. */
  tipPerGas: bigint | undefined;
  fees: Fees;
  lanes: LaneState[];
};

export type Lanes = {
  readonly keys: readonly RelayerKey[];
  /** Today's cost of relaying on this network. */
  readFeeBudget(): Promise<RelayBudget>;
  /** Fees, balances and nonces. Throws RpcTransportError when no node responds. */
  readMarket(maxAgeMs?: number): Promise<Market>;
  /** The market as last read, without asking a node. */
  lastMarket(): Market | undefined;
  /** A key that can pay for `gas` and has room for another transaction, or why there is none. `maxAgeMs`: maximum age of the market data used. */
  choose(gas: bigint, maxAgeMs?: number): Promise<RelayerKey | NoLane>;
};

/** `lanes_full`: mined blocks free up room. `gas_price_above_cap`: the base fee is above the highest fee that we may offer. */
export type NoLane =
  | "lanes_full"
  | "insufficient_gas_funds"
  | "daily_budget_exhausted"
  | "gas_price_above_cap";

/** `headMaxAgeS`: absent on chains that produce blocks only for transactions. */
export type LaneLimits = {
  maxFeeWei: bigint;
  dailyFeeMaxWei: bigint | undefined;
  headMaxAgeS?: number | undefined;
};

export function openLanes(
  sql: Sql,
  chain: Chain,
  keys: readonly RelayerKey[],
  { maxFeeWei, dailyFeeMaxWei, headMaxAgeS = Number.POSITIVE_INFINITY }: LaneLimits,
): Lanes {
  const headWatch = openStalledNodeDetector(chain);
  let market: Market | undefined;
  let areLanesEnsured = false;

  async function readMarket(maxAgeMs = FRESH_MS): Promise<Market> {
    if (market && performance.now() - market.readAtMs < maxAgeMs) return market;
    let askedAtMs = 0;
    const calls: RpcCall[] = [
      { method: "eth_getBlockByNumber", params: ["latest", false] },
      { method: "eth_maxPriorityFeePerGas", params: [] },
      ...keys.flatMap(({ address }) => [
        { method: "eth_getBalance", params: [address, "latest"] },
        { method: "eth_getTransactionCount", params: [address, "latest"] },
      ]),
    ];
    // read here, so that a node which lacks the head or the state is skipped for the next one
    const { head, tip, lanes } = await chain.withNode(async (node) => {
      askedAtMs = performance.now();
      const [header, tip, ...accounts] = await chain.batchOn(node, calls);
      return { head: readHead(header), tip, lanes: readLanes(keys, accounts) };
    });
    const { baseFeePerGas, headNumber, headHash, headTimeS } = head;
    if (!areLanesEnsured) await ensureLanes(lanes);
    const tipPerGas = tip?.ok ? parseQuantity(tip.result, "tip") : undefined;
    const headAgeS = Math.max(0, Date.now() / 1000 - Number(headTimeS));
    const read: Market = {
      askedAtMs,
      readAtMs: performance.now(),
      headNumber,
      headHash,
      headTimeS,
      headAgeS,
      isStalled: headAgeS > headMaxAgeS,
      baseFeePerGas,
      tipPerGas,
      fees: nextFees({ baseFeePerGas, tipPerGas, maxFeeWei }),
      lanes,
    };
    // the response to an earlier request arrived later
    if (!market || market.askedAtMs <= askedAtMs) market = read;
    headWatch.note(Number(headNumber));
    return read;
  }

  async function ensureLanes(lanes: readonly LaneState[]): Promise<void> {
    for (const { key, chainNonce } of lanes) {
      await ensureLane(sql, { network: chain.network.id, relayer: key.address }, chainNonce);
    }
    areLanesEnsured = true;
  }

  async function readFeeBudget(): Promise<RelayBudget> {
    const network = chain.network.id;
    const budget = await findBudget(sql, { network, scope: "FEES", subject: network });
    return { ...budget, maximum: dailyFeeMaxWei ?? null };
  }

  /** Also while reservations of pending transactions leave no room, since the actual cost is below the offer. */
  async function isBudgetExhausted(feeWei: bigint): Promise<boolean> {
    if (dailyFeeMaxWei === undefined) return false;
    return judgeBudget(await readFeeBudget(), feeWei) !== "fits";
  }

  return {
    keys,
    readMarket,
    lastMarket: () => market,
    readFeeBudget,
    async choose(gas, maxAgeMs = FRESH_MS) {
      const { lanes, fees, baseFeePerGas } = await readMarket(maxAgeMs);
      if (await isBudgetExhausted(gas * fees.maxFeePerGas)) return "daily_budget_exhausted";
      if (baseFeePerGas > maxFeeWei) return "gas_price_above_cap";
      const loads = await readLaneLoads(sql, chain.network.id);
      const loadOf = (lane: LaneState) => loads.get(lane.key.address) ?? { transactions: 0, gas: 0n };
      // pending transactions have not been paid for yet
      const able = lanes.filter((lane) => lane.balanceWei >= (loadOf(lane).gas + gas) * fees.maxFeePerGas);
      if (able.length === 0) return "insufficient_gas_funds";
      const [best] = able
        .filter((lane) => loadOf(lane).transactions < IN_FLIGHT_MAX)
        .toSorted(
          (a, b) =>
            Number(isAvoided(a.key)) - Number(isAvoided(b.key)) ||
            loadOf(a).transactions - loadOf(b).transactions,
        );
      return best?.key ?? "lanes_full";
    },
  };
}

/** Each key's next nonce on the chain; empty before the first query. */
export function toUsedNonces(market: Market | undefined): UsedNonces[] {
  if (!market) return [];
  const { lanes, headNumber } = market;
  return lanes.map(({ key, chainNonce }) => ({ relayer: key.address, chainNonce, headNumber }));
}

/** As last read from a node, in wei as decimal text, by network and address. */
export function readBalances(networks: readonly { chain: Chain; lanes: Lanes }[]): Record<string, string> {
  return Object.fromEntries(
    networks.flatMap(({ chain, lanes }) =>
      (lanes.lastMarket()?.lanes ?? []).map(({ key, balanceWei }) => [
        `${chain.network.id} ${key.address}`,
        balanceWei.toString(),
      ]),
    ),
  );
}

function readHead(
  outcome: RpcOutcome | undefined,
): Pick<Market, "baseFeePerGas" | "headNumber" | "headHash" | "headTimeS"> {
  const header = outcome?.ok ? (outcome.result as HeadJson | null) : undefined;
  if (!header?.baseFeePerGas) throw new RpcTransportError("malformed", "the head has no baseFeePerGas");
  return {
    baseFeePerGas: parseQuantity(header.baseFeePerGas, "baseFeePerGas"),
    headNumber: parseQuantity(header.number, "number"),
    headHash: parseData(header.hash, "hash", 32),
    headTimeS: parseQuantity(header.timestamp, "timestamp"),
  };
}

/** `accounts`: balance and nonce of each key. */
function readLanes(keys: readonly RelayerKey[], accounts: readonly (RpcOutcome | undefined)[]): LaneState[] {
  return keys.map((key, index) => ({
    key,
    balanceWei: quantityOf(accounts[2 * index], "eth_getBalance"),
    chainNonce: quantityOf(accounts[2 * index + 1], "eth_getTransactionCount"),
  }));
}

type HeadJson = { baseFeePerGas?: string; number?: string; hash?: string; timestamp?: string };

function quantityOf(outcome: RpcOutcome | undefined, what: string): bigint {
  if (!outcome?.ok) throw outcome?.error ?? new RpcTransportError("malformed", `${what} was not answered`);
  return parseQuantity(outcome.result, what);
}
