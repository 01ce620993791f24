/**
 * Whose incoming transfers count. A transfer between two wallets may be read before its recipient is watched; it is stored once, for both sides, so
 * it is attributed for the recipient then: when that wallet's past is read, it is already known.
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { findWallets } from "../../db/ledger/watched-wallets.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { BlockContent } from "./decode-logs.ts";

/** True for watched addresses, and for recipients in these blocks that are wallets of ours without being watched. */
export async function findRecipients(
  { sql, network }: { sql: Sql; network: NetworkId },
  blocks: readonly BlockContent[],
  isWatched: (address: Hex) => boolean,
): Promise<(address: Hex) => boolean> {
  const others = blocks.flatMap(({ transfers }) =>
    transfers.flatMap(({ to }) => (isWatched(to) ? [] : [to])),
  );
  if (others.length === 0) return isWatched;
  const unwatched = new Set(await findWallets(sql, network, [...new Set(others)]));
  return (address) => isWatched(address) || unwatched.has(address);
}
