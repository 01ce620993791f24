/**
 * Decides whether the bytes of pending relays may be sent again. Nodes lose transactions, blocks are reorganised away, and some bytes no node has
 * seen yet: sending those is like sending new ones, so only bytes that are still needed are sent, and others are replaced at their nonce.
 * Until that nonce is used the old bytes can still be mined, so their contents stay SIGNED.
 */
import type { Tx } from "../../db/postgres/client.ts";
import { settleCharges } from "../../db/relays/budgets.ts";
import type { InFlightAttempt, InFlightRelay } from "../../db/relays/relays.ts";
import { markDropped } from "../../db/relays/reorganised-relays.ts";
import { readReceipts } from "./record-receipts.ts";
import type { RelayNetwork } from "./relay-network.ts";
import type { Market } from "./relayer-lanes.ts";
import { HEAD_VALID_MS } from "./send-relay.ts";

/** "early": the ledger can't tell yet. "outdated": the head is too old to tell. "less": part of its contents is no longer needed. */
export type ResendVerdict = "same" | "less" | "early" | "outdated";

/** Whether the newest attempt may be sent again. */
export async function decideResend(
  { deps, chain, kinds }: RelayNetwork,
  relay: InFlightRelay,
  { newest, isObsolete, market }: { newest: InFlightAttempt; isObsolete: boolean; market: Market },
): Promise<ResendVerdict> {
  if (newest.isNoop) return "same";
  if (isObsolete) return "less";
  const { revise } = kinds[relay.kind];
  if (!revise) return "same";
  const revised = await deps.sql.begin((tx) => revise(tx, chain.network, relay, market));
  if (performance.now() - market.askedAtMs > HEAD_VALID_MS) return "outdated";
  if (!revised) return "early";
  const leftOut = new Set(newest.leftOut);
  const isSame = !revised.isNoop && (revised.leftOut ?? []).every((id) => leftOut.has(id));
  return isSame ? "same" : "less";
}

/**
 * A final block was reorganised away after the bytes had been deleted, so nothing can be sent again. The relay's contents are queued
 * again, and a no-op uses the nonce.
 */
export async function abandonDropped(network: RelayNetwork, relay: InFlightRelay): Promise<void> {
  const { deps, chain } = network;
  // it may have been mined again since its receipt was requested
  if ((await readReceipts(chain, [relay])).length > 0) return;
  await deps.sql.begin((tx) => giveUp(tx, network, relay));
  deps.log.warn(
    { network: chain.network.id, relayer: relay.relayer, nonce: relay.nonce.toString() },
    "a final transaction was reorganised away after its bytes were deleted; the relay is LOST",
  );
}

async function giveUp(tx: Tx, { chain, kinds }: RelayNetwork, { id, kind }: InFlightRelay): Promise<void> {
  if (!(await markDropped(tx, id))) return;
  await kinds[kind].requeueLost?.(tx, chain.network.id, id);
  await settleCharges(tx, [id]);
}
