/**
 * How far a statement reaches, and the wallet's balance on the chain there. A period that is over and confirmed is final, and its balance on the
 * chain is recorded once, because nodes drop old states. Any other statement ends with the last confirmed block.
 */
import { findLastBlockBefore } from "../../../core/chain/block-at-time.ts";
import { readBalance } from "../../../core/chain/usdc.ts";
import type { Hex, NetworkId } from "../../../core/domain/networks.ts";
import { isComplete } from "../../../core/domain/period-end.ts";
import type { ClosingBlock } from "../../../core/domain/statement.ts";
import type { Chain } from "../../../core/rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../../../core/rpc/errors.ts";
import { findClosingBalance, findLedgerEnd, recordClosingBalance } from "../../../db/exports/statements.ts";
import type { Sql } from "../../../db/postgres/client.ts";
import type { WorkerConfig } from "../../config.ts";

export type ClosingDeps = {
  sql: Sql;
  chains: ReadonlyMap<NetworkId, Chain>;
  config: Pick<WorkerConfig, "chains">;
};
type ClosedWallet = { id: string; userId: string; network: NetworkId; address: Hex };
export type Closing = {
  /** Movements before this are in the statement. */
  before: Date;
  isFinal: boolean;
  chain: { balanceUnits: bigint; block: ClosingBlock } | { reason: string };
};

export async function closePeriod(
  deps: ClosingDeps,
  wallet: ClosedWallet,
  before: Date,
  now = new Date(),
): Promise<Closing> {
  const { sql, chains, config } = deps;
  const { network, userId } = wallet;
  const confirmations = config.chains.find(({ id }) => id === network)?.confirmations ?? 1;
  const end = await findLedgerEnd(sql, { userId, network, confirmations });
  if (!end) return { before, isFinal: false, chain: { reason: "this network is not followed" } };
  const isFinal = isComplete(end, before, now);
  const reach = end.confirmedBefore >= before ? before : end.confirmedBefore;
  if (!end.isWhole)
    return { before: reach, isFinal, chain: { reason: "the wallet's earlier blocks are still being read" } };
  const chain = chains.get(network);
  if (!chain) return { before: reach, isFinal, chain: { reason: "this network is not enabled" } };
  const reading = await readClosing(deps, chain, { wallet, reach, upTo: end.number, isFinal });
  return { before: reach, isFinal, chain: reading };
}

type Reading = { wallet: ClosedWallet; reach: Date; upTo: number; isFinal: boolean };

async function readClosing(
  { sql }: ClosingDeps,
  chain: Chain,
  { wallet, reach, upTo, isFinal }: Reading,
): Promise<Closing["chain"]> {
  const recorded = isFinal ? await findClosingBalance(sql, wallet.id, reach) : undefined;
  const kept = recorded && {
    balanceUnits: recorded.balanceUnits,
    block: { number: Number(recorded.blockNumber), hash: recorded.blockHash, time: recorded.blockTime },
  };
  try {
    const found = await findLastBlockBefore(chain, { timeS: reach.getTime() / 1000, upTo });
    if (!found) return kept ?? { reason: "the chain has no block before the end of the period" };
    if (kept?.block.hash === found.hash) return kept;
    const block = { number: found.number, hash: found.hash, time: new Date(found.timeS * 1000) };
    const ref = { blockHash: block.hash, requireCanonical: true } as const;
    const balanceUnits = await readBalance(chain, wallet.address, ref);
    if (isFinal)
      await recordClosingBalance(sql, {
        ...{ walletId: wallet.id, endsAt: reach, balanceUnits },
        ...{ blockNumber: BigInt(block.number), blockHash: block.hash, blockTime: block.time },
      });
    return { balanceUnits, block };
  } catch (error) {
    if (error instanceof RpcTransportError) return kept ?? { reason: "no node answered" };
    if (error instanceof RpcResponseError)
      return kept ?? { reason: "no node still has the state of that block" };
    throw error;
  }
}
