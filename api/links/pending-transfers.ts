/**
 * Transfers in the block that is being built, from a node's `pending` logs (Flashblocks), to recipients of links whose pages are open. A
 * hint for the page: they are unproven and may never get into a block, so nothing is stored and no state depends on them.
 */
import { topicOfAddress } from "../../core/chain/bloom.ts";
import { decodeTransferLog, TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import { noteLinkWatch } from "../../db/links/link-watches.ts";
import type { Sql } from "../../db/postgres/client.ts";

/** Poll interval while the node is known to serve pending logs. */
const POLL_MS = 250;
/** Poll interval until the node has returned any transfer: most nodes return an empty list for the pending block. */
const PROBE_MS = 2_000;
const RETRY_MAX_MS = 60_000;
/** A timer may fire this much early: the poll due then must not wait for the next one. */
const EARLY_MS = 50;
/** How long a response with logs proves that the node serves pending logs. */
const SHOWN_FOR_MS = 600_000;
/** How long the indexer polls faster after the last notification. */
const WATCH_S = 10;
const NOTE_EVERY_MS = 4_000;
/** Values per topic position that every node accepts. */
const RECIPIENTS_MAX = 1_000;

export type WatchedLink = {
  readonly recipient: Hex;
  readonly amountUnits: bigint;
  readonly payAmountUnits: bigint | null;
};

/** `block`: the one being built, as the node numbers it. */
type OnSeen = (block: number) => void;
type Watcher = { readonly link: WatchedLink; readonly onSeen: OnSeen };
type NetworkWatch = { readonly watchers: Set<Watcher>; shownMs: number; failures: number };

/** One poll per network, however many watchers there are. */
const watches = new WeakMap<Chain, NetworkWatch>();

/** Calls `onSeen` whenever a pending transfer fits the link. Returns a function that stops it. */
export function watchPending(
  { chain, sql }: { chain: Chain; sql: Sql },
  link: WatchedLink,
  onSeen: OnSeen,
): () => void {
  const watch = watches.get(chain) ?? { watchers: new Set(), shownMs: Number.NEGATIVE_INFINITY, failures: 0 };
  watches.set(chain, watch);
  const watcher = { link, onSeen };
  const isFirst = watch.watchers.size === 0;
  watch.watchers.add(watcher);
  if (isFirst) void pollWhileWatched(chain, sql, watch);
  return () => void watch.watchers.delete(watcher);
}

async function pollWhileWatched(chain: Chain, sql: Sql, watch: NetworkWatch): Promise<void> {
  const { watchers } = watch;
  let polledMs = Number.NEGATIVE_INFINITY;
  let notedMs = Number.NEGATIVE_INFINITY;
  while (watchers.size > 0) {
    const startedMs = performance.now();
    if (startedMs - notedMs >= NOTE_EVERY_MS) {
      notedMs = startedMs;
      // a lost notification is repeated
      void noteLinkWatch(sql, chain.network.id, WATCH_S).catch(() => undefined);
    }
    const isShown = startedMs - watch.shownMs < SHOWN_FOR_MS;
    const everyMs = isShown ? POLL_MS : PROBE_MS;
    if (startedMs - polledMs + EARLY_MS >= Math.min(everyMs * 2 ** watch.failures, RETRY_MAX_MS)) {
      polledMs = startedMs;
      await poll(chain, watch, isShown).then(
        () => {
          watch.failures = 0;
        },
        () => {
          watch.failures = Math.min(watch.failures + 1, 10);
        },
      );
    }
    await Bun.sleep(Math.max(0, POLL_MS - (performance.now() - startedMs)));
  }
}

/** `isShown`: only what concerns the watchers. */
async function poll(chain: Chain, watch: NetworkWatch, isShown: boolean): Promise<void> {
  const recipients = [...new Set([...watch.watchers].map(({ link }) => link.recipient))];
  const isFiltered = isShown && recipients.length <= RECIPIENTS_MAX;
  const topics = isFiltered ? [TRANSFER_TOPIC, null, recipients.map(topicOfAddress)] : [TRANSFER_TOPIC];
  const { address } = chain.network.usdc;
  const filter = { fromBlock: "pending", toBlock: "pending", address, topics };
  const answer = await chain.request("eth_getLogs", [filter]);
  const logs = Array.isArray(answer) ? answer : [];
  if (logs.length > 0) watch.shownMs = performance.now();
  const seen = new Map(logs.flatMap((log) => entryOfLog(log) ?? []));
  for (const { link, onSeen } of watch.watchers) {
    const amounts = [link.amountUnits, link.payAmountUnits];
    const blocks = amounts.flatMap((units) =>
      units === null ? [] : (seen.get(keyOf(link.recipient, units)) ?? []),
    );
    if (blocks.length > 0) onSeen(Math.max(...blocks));
  }
}

function entryOfLog(log: unknown): [[key: string, block: number]] | undefined {
  const [topics, data] = [fieldOf(log, "topics"), fieldOf(log, "data")];
  if (!Array.isArray(topics) || typeof data !== "string") return undefined;
  const transfer = decodeTransferLog({ topics: topics.map(String), data });
  // a block that has no number yet is after every other one
  const number = Number(fieldOf(log, "blockNumber") ?? Number.NaN);
  const block = Number.isNaN(number) ? Number.POSITIVE_INFINITY : number;
  return transfer && [[keyOf(transfer.to, transfer.amountUnits), block]];
}

function keyOf(recipient: string, units: bigint): string {
  return `${recipient}:${units}`;
}
