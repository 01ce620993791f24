/** Reorganisations and rollbacks of a chain of the mixed campaign, and transactions that come back after them. */
import type { Hex } from "../../core/domain/networks.ts";
import { randomAddress } from "../support/seed.ts";
import { drawOne } from "../support/seeded-random.ts";
import {
  type CampaignChain,
  REORG_DEPTH_MAX,
  readHead,
  setClock,
  takeTurn,
  withoutMining,
} from "./campaign-chain.ts";
import { count, type Stage } from "./stage.ts";

/** The rest replaces the blocks by as many others. */
const ROLLBACK_SHARE = 0.2;
/** Of the transactions of the replaced blocks, those that the new blocks hold too. */
const KEPT_SHARES = [0, 0.5, 0.9, 1] as const;
/** Of the kept transactions, those that stay at their height. */
const SAME_HEIGHT_SHARE = 0.5;
const RESEND_AFTER_ROLLBACK_SHARE = 0.5;
const RESENT_MAX = 120;

/** A transaction's bytes, and the offset of its new block from the lowest replaced one. */
type Placed = readonly [raw: Hex, offset: number];
type Replaced = { first: number; depth: number };

/** Of 1 to 8 blocks. Returns false, and does nothing, where the chain has already lost as many as it may. */
export function reorganiseChain(stage: Stage, chain: CampaignChain): Promise<boolean> {
  return takeTurn(chain, () => withoutMining(chain, () => replaceBlocks(stage, chain)));
}

async function replaceBlocks(stage: Stage, chain: CampaignChain): Promise<boolean> {
  const head = await readHead(chain);
  chain.highestHead = Math.max(chain.highestHead, head);
  const lowest = chain.highestHead - REORG_DEPTH_MAX;
  const depth = Math.min(1 + Math.floor(stage.random() * REORG_DEPTH_MAX), head - lowest);
  if (depth < 1) return false;
  const isRollback = stage.random() < ROLLBACK_SHARE;
  const { kept, dropped } = await placeTransactions(stage, chain, { first: head - depth + 1, depth });
  // otherwise a block may be the same as one before it and have its hash, and anvil loses it together with that one
  await chain.rpc("anvil_setCoinbase", [randomAddress()]);
  try {
    if (isRollback) await chain.rpc("anvil_rollback", [depth]);
    else await chain.rpc("anvil_reorg", [depth, kept]);
  } catch (error) {
    count(stage, `reorganisation refused: ${String(error).slice(0, 80)}`);
    return false;
  } finally {
    // every reorganisation sets the chain's clock back a little
    await setClock(chain);
  }
  count(stage, isRollback ? "rollback" : "reorganisation");
  count(stage, "transactions dropped", dropped + (isRollback ? kept.length : 0));
  count(stage, "transactions placed again", isRollback ? 0 : kept.length);
  if (isRollback && stage.random() < RESEND_AFTER_ROLLBACK_SHARE)
    for (const [raw] of kept) await chain.rpc("eth_sendRawTransaction", [raw]).catch(() => undefined);
  return true;
}

/** Those of one sender stay in their order, and after one that is dropped there is none: their nonces would have a gap. */
async function placeTransactions(
  { random }: Stage,
  { rpc }: CampaignChain,
  { first, depth }: Replaced,
): Promise<{ kept: Placed[]; dropped: number }> {
  const keptShare = drawOne(random, KEPT_SHARES);
  const kept: Placed[] = [];
  const isDropped = new Set<Hex>();
  const offsets = new Map<Hex, number>();
  let dropped = 0;
  for (let offset = 0; offset < depth; offset++) {
    const number = `0x${(first + offset).toString(16)}`;
    const { transactions } = (await rpc("eth_getBlockByNumber", [number, true])) as {
      transactions: readonly { hash: Hex; from: Hex }[];
    };
    for (const { hash, from } of transactions) {
      const raw = isDropped.has(from) ? undefined : await readRaw(rpc, hash);
      if (!raw || random() >= keptShare) {
        isDropped.add(from);
        dropped += 1;
        continue;
      }
      const drawn = random() < SAME_HEIGHT_SHARE ? offset : Math.floor(random() * depth);
      const place = Math.max(offsets.get(from) ?? 0, drawn);
      offsets.set(from, place);
      kept.push([raw, place]);
    }
  }
  return { kept: kept.sort(([, one], [, other]) => one - other), dropped };
}

/** Undefined for a transaction without a signature, of an account that the node impersonated. */
async function readRaw(rpc: CampaignChain["rpc"], hash: Hex): Promise<Hex | undefined> {
  return rpc("eth_getRawTransactionByHash", [hash]).then(
    (raw) => (raw as Hex | null) ?? undefined,
    () => undefined,
  );
}

/** As wallets and nodes broadcast again what a reorganisation has dropped: this share of the newest transactions, where no block holds them. */
export async function resendDropped(stage: Stage, chain: CampaignChain, share: number): Promise<void> {
  for (const { raw, txHash } of chain.sent.slice(-RESENT_MAX)) {
    if (stage.random() >= share) continue;
    await takeTurn(chain, async () => {
      if (await chain.rpc("eth_getTransactionReceipt", [txHash])) return;
      await chain.rpc("eth_sendRawTransaction", [raw]).then(
        () => count(stage, "transactions sent again"),
        () => undefined,
      );
    });
  }
}
