/** A new leader's setup: a cursor with its own epoch, and the wallets to follow. */
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { collectEvery } from "../../core/runtime/collect-garbage.ts";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import { startCursor } from "../../db/ledger/cursors.ts";
import {
  awaitFormerLeaders,
  endFormerLeadersTransactions,
  findBackendPid,
} from "../../db/ledger/former-leader-transactions.ts";
import { beginEpoch } from "../../db/ledger/leader-epoch.ts";
import { countJoinedWallets, readJoinedWallets } from "../../db/ledger/watched-wallets.ts";
import type { Cursor } from "../../db/schema.ts";
import type { Term } from "../leader-term.ts";
import { NEAR_BLOCKS } from "../settle/commit-blocks.ts";
import { readHeader } from "../source/block-header.ts";
import { WatchedSet } from "../source/watched-wallets.ts";

/** How long a former leader's transaction may lock the cursor before it is terminated. A commit takes milliseconds. */
const FORMER_LEADER_MS = 1_000;

/** A chain this short is read from its first block. */
const YOUNG_BLOCKS = 10_000;

/** Characters of addresses read between garbage collections; there may be over a hundred thousand addresses. */
const CHARACTERS_A_COLLECTION = 2_000_000;

/** Raises the epoch and loads the previous leader's state. Creates the cursor on the very first start. */
export async function beginLeaderTerm(
  parts: Omit<Term, "epoch" | "startedAt" | "watched" | "cursor">,
): Promise<Term> {
  const row = (await takeCursor(parts)) ?? (await makeCursor(parts));
  const watched = new WatchedSet(await countJoinedWallets(parts.sql, parts.network));
  const collect = collectEvery(CHARACTERS_A_COLLECTION);
  await parts.sql.begin("isolation level repeatable read read only", async (tx) => {
    for await (const lines of readJoinedWallets(tx, parts.network)) {
      watched.addLines(lines);
      collect(lines.length);
    }
  });
  const cursor = { number: Number(row.number), hash: row.hash };
  return { ...parts, epoch: row.epoch, startedAt: row.startedAt ?? undefined, watched, cursor };
}

/** Raises the epoch without waiting for a former leader that froze in a transaction. Undefined before the first start. */
async function takeCursor({ sql, network, log }: Pick<Term, "sql" | "network" | "log">) {
  return sql.begin(async (tx) => {
    const pid = await findBackendPid(tx);
    const timer = setInterval(async () => {
      const ended = await endFormerLeadersTransactions(sql, pid).catch(() => 0);
      if (ended > 0) log.warn({ network, ended }, "ended transactions of a former leader");
    }, FORMER_LEADER_MS);
    try {
      await awaitFormerLeaders(tx, network);
      return await beginEpoch(tx, network);
    } finally {
      clearInterval(timer);
    }
  });
}

/** Wallets created from now on are followed before their first transfer; older ones are backfilled, so that little history is read at once. */
async function makeCursor({ sql, chain, network }: Pick<Term, "sql" | "chain" | "network">): Promise<Cursor> {
  const start = await readStart(chain);
  await sql.begin(async (tx) => {
    await startCursor(tx, network, { number: start.number, hash: start.hash });
    await insertBlocks(tx, network, [start]);
  });
  const row = await beginEpoch(sql, network);
  if (!row) throw new Error(`the cursor of ${network} disappeared while it was being created`);
  return row;
}

async function readStart(chain: Chain) {
  const head = await readHeader(chain, "latest");
  const finalized = await readHeader(chain, "finalized").catch(() => undefined);
  if (head) {
    const below = Math.min(finalized?.number ?? head.number, head.number - NEAR_BLOCKS);
    const start = await readHeader(chain, head.number < YOUNG_BLOCKS ? 0 : below);
    if (start) return start;
  }
  throw new RpcTransportError("not-ready", `${chain.network.id}: no node reported its head`);
}
