/**
 * The source of the newest header: the announcement itself when it follows the cursor, else a node, which is asked on each poll while there are
 * no announcements, and every few seconds as a check while there are. Providers charge for announcements, so they are subscribed to only while
 * every block is read.
 */
import type { Chain } from "../../core/rpc/chain-client.ts";
import { openStalledNodeDetector } from "../../core/rpc/detect-stalled-nodes.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { BlockPoint } from "../../db/ledger/cursors.ts";
import { type BlockHeader, parseHeader, readHeader } from "../source/block-header.ts";

/** How long announcements are relied on after the last one: three blocks on Base. */
const ANNOUNCED_MS = 6_000;
const CHECK_EVERY_MS = 10_000;

export type HeadSource = {
  /** Undefined when nothing has been announced since the last answer and none is due. */
  read: (cursor: BlockPoint) => Promise<BlockHeader | undefined>;
  /** Makes the next `read` ask a node, because there may be more than was announced. */
  readAgain: () => void;
  /** Subscribes to announcements, or ends the subscription. */
  listen: (isWanted: boolean) => void;
};

/** `onAnnouncement` is called for each announced block. */
export function openHeadSource(chain: Chain, onAnnouncement: () => void): HeadSource {
  let announced: { blockNumber: number; header: BlockHeader | undefined } | undefined;
  let announcedMs = Number.NEGATIVE_INFINITY;
  let readMs = Number.NEGATIVE_INFINITY;
  /** Whether the headers that nodes answer make their hashes; announcements of some nodes lack fields that their blocks have. */
  let areHashesProven = true;
  let stop: (() => void) | undefined;
  const watch = openStalledNodeDetector(chain);

  function subscribe(): () => void {
    return chain.onNewHead(({ blockNumber, header }) => {
      announced = { blockNumber, header: parseOrUndefined(header) };
      announcedMs = performance.now();
      onAnnouncement();
    });
  }

  async function readNode(): Promise<BlockHeader> {
    const asked = announced;
    const head = await readHeader(chain, "latest");
    if (!head) throw new RpcTransportError("not-ready", `${chain.network.id}: no node reported its head`);
    readMs = performance.now();
    areHashesProven = head.isHashProven;
    watch.note(head.number);
    // a node behind a load balancer may not have a block that another one announced: ask again
    if (asked === announced && asked && head.number >= asked.blockNumber) announced = undefined;
    return head;
  }

  return {
    async read(cursor) {
      const next = announced?.header;
      const isUsable = next !== undefined && (next.isHashProven || !areHashesProven);
      const isCheckDue = performance.now() - readMs >= CHECK_EVERY_MS;
      if (isUsable && !isCheckDue && next.number === cursor.number + 1 && next.parentHash === cursor.hash) {
        announced = undefined;
        watch.note(next.number);
        return next;
      }
      const isAnnounced = performance.now() - announcedMs < ANNOUNCED_MS;
      if (!announced && isAnnounced && !isCheckDue) return undefined;
      return readNode();
    },
    readAgain() {
      readMs = Number.NEGATIVE_INFINITY;
    },
    listen(isWanted) {
      if (isWanted) stop ??= subscribe();
      else {
        stop?.();
        stop = undefined;
        announced = undefined;
        announcedMs = Number.NEGATIVE_INFINITY;
      }
    },
  };
}

function parseOrUndefined(header: unknown): BlockHeader | undefined {
  try {
    return parseHeader(header);
  } catch (error) {
    if (error instanceof RpcTransportError) return undefined;
    throw error;
  }
}
