/**
 * Searches blocks for logs of our accounts that touch neither the token nor the EntryPoint: an address owner can change the owners directly.
 * Only deep enough blocks are searched, so no result is ever undone; each hit is read again, whole and proven.
 */

import { ACCOUNT_TOPICS } from "../../core/chain/account-logs.ts";
import { newestConfirmedBlock } from "../../core/domain/confirmations.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { holdEpoch } from "../../db/ledger/leader-epoch.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { findAccountLogsNumber, noteAccountLogs } from "../../db/wallet-ops/account-changes.ts";
import { FencedError, type Term } from "../leader-term.ts";
import { commitIsolating, type Isolate } from "../settle/isolate-refused-records.ts";
import {
  accountChangesOf,
  reportWalletChanges,
  storeAccountChanges,
} from "../settle/report-wallet-changes.ts";
import { headerCall } from "../source/block-header.ts";
import type { BlockContent } from "../source/decode-logs.ts";
import { TOPIC_VALUES_MAX } from "../source/past-logs.ts";
import { readRangeLogs } from "../source/range-logs.ts";
import { readProvenBlock } from "./read-proven-block.ts";

const BLOCKS_MAX = 2_000;
/** Nodes asked per search: what one omits, another one returns. */
const WITNESSES = 2;

/** Searches the blocks that became deep enough since the last search, at most BLOCKS_MAX. Returns whether there are more. */
export async function searchAccountLogs(term: Term): Promise<boolean> {
  const { sql, network, cursor, confirmations, watched } = term;
  const deep = newestConfirmedBlock(cursor.number, confirmations);
  const searched = await findAccountLogsNumber(sql, network);
  // a chain that is younger than its confirmations has no block that is deep enough
  const from = Math.max(0, (searched ?? deep) + 1);
  const to = searched === null ? deep : Math.min(deep, searched + BLOCKS_MAX);
  if (searched !== null && to < from) return false;
  const numbers = from > to || watched.size === 0 ? [] : await findHits(term, { from, to });
  const blocks: BlockContent[] = [];
  for (const number of numbers) blocks.push(await readProvenBlock(term, number));
  await commitIsolating(term, `account logs after ${from - 1}`, (isolateIn) =>
    sql.begin((tx) => storeFound(tx, term, { blocks, searched, to }, isolateIn?.(tx))),
  );
  return to < deep;
}

type Found = { blocks: readonly BlockContent[]; searched: number | null; to: number };

async function storeFound(
  tx: Tx,
  { network, epoch }: Term,
  { blocks, searched, to }: Found,
  isolate: Isolate | undefined,
): Promise<void> {
  if (!(await holdEpoch(tx, network, epoch))) throw new FencedError(network);
  const changes = accountChangesOf(blocks);
  await storeAccountChanges(tx, network, changes, isolate);
  if (changes.length > 0) await reportWalletChanges(tx, { network, after: to, depthNumber: to }, isolate);
  await noteAccountLogs(tx, { network, from: searched, to });
  await notify(
    tx,
    changes.map(({ walletAddress }) => walletAddress),
  );
}

async function findHits(term: Term, range: { from: number; to: number }): Promise<number[]> {
  const { chain, watched } = term;
  const topics = [[...ACCOUNT_TOPICS]];
  const addresses: Hex[] | undefined = watched.size <= TOPIC_VALUES_MAX ? [...watched] : undefined;
  const filter = addresses ? { address: addresses, topics } : { topics };
  const nodes = chain.nodesByHealth().slice(0, WITNESSES);
  const answers = await Promise.allSettled(
    nodes.map((node) =>
      readRangeLogs(chain, node, range, { filters: [filter], headerCalls: [headerCall(range.to)] }),
    ),
  );
  const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  const failed = answers.find((answer) => answer.status === "rejected");
  if (found.length === 0) throw failed?.reason ?? new RpcTransportError("closed", "there is no node");
  const numbers = found.flatMap(({ logs }) =>
    logs.filter(({ address }) => watched.has(address.toLowerCase() as Hex)).map((log) => log.blockNumber),
  );
  return [...new Set(numbers)].sort((a, b) => a - b);
}
