/** The time that counts for an authorization's window is the chain's. Read from the indexer's cursor, at most once a second. */
import type { NetworkId } from "../../core/domain/networks.ts";
import { findChainTime } from "../../db/links/payable-links.ts";
import type { Sql } from "../../db/postgres/client.ts";

const FRESH_MS = 1_000;

export type ChainClock = { nowS(network: NetworkId): Promise<number> };

/** Unix seconds: the later of the chain's last block and our clock, so a window that is about to end counts as over. */
export function openChainClock(sql: Sql): ChainClock {
  const known = new Map<NetworkId, { readAtMs: number; offsetS: number }>();
  return {
    async nowS(network) {
      const nowMs = Date.now();
      const cached = known.get(network);
      if (cached && nowMs - cached.readAtMs < FRESH_MS) return Math.floor(nowMs / 1000) + cached.offsetS;
      const headS = await findChainTime(sql, network);
      const offsetS = Math.max(0, (headS ?? 0) - Math.floor(nowMs / 1000));
      known.set(network, { readAtMs: nowMs, offsetS });
      return Math.floor(nowMs / 1000) + offsetS;
    },
  };
}
