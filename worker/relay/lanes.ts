/** The relayer keys of one network as lanes: fees, balances and load, read from the node at most once a second. */
import type { Chain } from "../../core/chain/clients.ts";
import { type Fees, nextFees } from "../../core/chain/fees.ts";
import { parseQuantity } from "../../core/chain/rpc-answers.ts";
import { RpcTransportError } from "../../core/chain/rpc-errors.ts";
import type { RpcOutcome } from "../../core/chain/rpc-node.ts";
import type { Sql } from "../../db/client.ts";
import { countInFlight, ensureLane } from "../../db/relays.ts";
import type { RelayerKey } from "../config.ts";

/** Transactions a lane may have outside of any block. */
const IN_FLIGHT_MAX = 16;
const FRESH_MS = 1_000;

export type LaneState = { key: RelayerKey; balanceWei: bigint; chainNonce: bigint };
export type Market = { readAtMs: number; baseFeePerGas: bigint; fees: Fees; lanes: LaneState[] };

export type Lanes = {
  readonly keys: readonly RelayerKey[];
  /** Fees, balances and nonces. Throws RpcTransportError when no node answers. */
  readMarket(maxAgeMs?: number): Promise<Market>;
  /** A key that can pay `gas` and has room; "full" when only room is missing, "poor" when no key can pay. */
  choose(gas: bigint): Promise<RelayerKey | "full" | "poor">;
};

export function openLanes(sql: Sql, chain: Chain, keys: readonly RelayerKey[], maxFeeWei: bigint): Lanes {
  let market: Market | undefined;
  let known = false;

  async function readMarket(maxAgeMs = FRESH_MS): Promise<Market> {
    if (market && Date.now() - market.readAtMs < maxAgeMs) return market;
    const [header, tip, ...accounts] = await chain.batch([
      { method: "eth_getBlockByNumber", params: ["latest", false] },
      { method: "eth_maxPriorityFeePerGas", params: [] },
      ...keys.flatMap(({ address }) => [
        { method: "eth_getBalance", params: [address, "latest"] },
        { method: "eth_getTransactionCount", params: [address, "latest"] },
      ]),
    ]);
    const baseFeePerGas = readBaseFee(header);
    const lanes = keys.map((key, index) => ({
      key,
      balanceWei: quantityOf(accounts[2 * index], "eth_getBalance"),
      chainNonce: quantityOf(accounts[2 * index + 1], "eth_getTransactionCount"),
    }));
    if (!known) await makeLanesKnown(lanes);
    market = {
      readAtMs: Date.now(),
      baseFeePerGas,
      fees: nextFees({
        baseFeePerGas,
        tipPerGas: tip?.ok ? parseQuantity(tip.result, "tip") : undefined,
        maxFeeWei,
      }),
      lanes,
    };
    return market;
  }

  async function makeLanesKnown(lanes: readonly LaneState[]): Promise<void> {
    for (const { key, chainNonce } of lanes) {
      await ensureLane(sql, { network: chain.network.id, relayer: key.address }, chainNonce);
    }
    known = true;
  }

  return {
    keys,
    readMarket,
    async choose(gas) {
      const { lanes, fees } = await readMarket();
      const able = lanes.filter((lane) => lane.balanceWei >= gas * fees.maxFeePerGas);
      if (able.length === 0) return "poor";
      const load = await countInFlight(sql, chain.network.id);
      const loadOf = (lane: LaneState) => load.get(lane.key.address) ?? 0;
      const [best] = able
        .filter((lane) => loadOf(lane) < IN_FLIGHT_MAX)
        .toSorted((a, b) => loadOf(a) - loadOf(b));
      return best?.key ?? "full";
    },
  };
}

function readBaseFee(outcome: RpcOutcome | undefined): bigint {
  const header = outcome?.ok ? (outcome.result as { baseFeePerGas?: string } | null) : undefined;
  if (!header?.baseFeePerGas) throw new RpcTransportError("malformed", "the head has no baseFeePerGas");
  return parseQuantity(header.baseFeePerGas, "baseFeePerGas");
}

function quantityOf(outcome: RpcOutcome | undefined, what: string): bigint {
  if (!outcome?.ok) throw outcome?.error ?? new RpcTransportError("malformed", `${what} was not answered`);
  return parseQuantity(outcome.result, what);
}
