/**
 * Judges the bytes of pending relays before they are sent again. Nodes lose bytes, blocks leave the chain, and some bytes no node has had
 * yet: sending them is like sending new ones, so that only what is still wanted goes out, and what is not wanted any more is replaced at its
 * nonce. Until that nonce is used the old bytes can still be mined: what they carry stays SIGNED.
 */
import type { Tx } from "../../db/postgres/client.ts";
import { settleCharges } from "../../db/relays/budgets.ts";
import type { InFlightAttempt, InFlightRelay } from "../../db/relays/relays.ts";
import { markDropped } from "../../db/relays/reorganised-relays.ts";
import { readReceipts } from "./record-receipts.ts";
import type { RelayNetwork } from "./relay-network.ts";
import type { Market } from "./relayer-lanes.ts";
import { HEAD_VALID_MS } from "./send-relay.ts";

/** "early": the ledger can't tell yet. "outdated": the head is too old to tell. "less": it carries something that is not wanted any more. */
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
 * A block that was final was reorganised away, and the bytes were dropped by then: nothing can be sent again. What the relay carried is
 * queued again, and a no-op uses the nonce.
 */
export async function abandonDropped(network: RelayNetwork, relay: InFlightRelay): Promise<void> {
  const { deps, chain } = network;
  // it may have been mined again since its receipt was asked for
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
