/** Attributions that a rebuild keeps: earlier decisions remain, and only other transfers are decided again. */
import type { Verdict } from "../../core/domain/attribute-transfers.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { isInferred } from "../../core/domain/settled-by.ts";
import {
  findDecidedLinks,
  findDecisions,
  findTaggedWallets,
  type PastDecision,
  type TakenLink,
} from "../../db/ledger/rebuild-attributions.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { SeenTransfer } from "../source/decode-logs.ts";

export type PriorAttributions = {
  /** Decided to be received without a link. */
  decided: ReadonlyMap<SeenTransfer, Verdict>;
  /** Links that other transfers can't pay, because a transfer whose decision is kept pays them, possibly a later one. */
  takenLinks: readonly TakenLink[];
};

export const NO_PRIOR_ATTRIBUTIONS: PriorAttributions = { decided: new Map(), takenLinks: [] };

/** Of these transfers, in the chain's order. Call inside a transaction after `keepDecisions`. */
export async function findPriorAttributions(
  tx: Tx,
  network: NetworkId,
  transfers: readonly SeenTransfer[],
): Promise<PriorAttributions> {
  const [first, last] = [transfers[0], transfers.at(-1)];
  if (!first || !last) return NO_PRIOR_ATTRIBUTIONS;
  const rows = await findDecisions(tx, { from: first.block.number, to: last.block.number });
  const tagged = await findTaggedWallets(tx, network, [
    ...new Set(transfers.flatMap(({ tag }) => tag ?? [])),
  ]);
  const byPlace = new Map(rows.map((row) => [`${row.blockHash}:${row.logIndex}`, row]));
  const decided = new Map<SeenTransfer, Verdict>();
  for (const transfer of transfers) {
    const row = byPlace.get(`${transfer.block.hash}:${transfer.logIndex}`);
    // a link's tag on the chain outweighs what was inferred without it; other bytes prove nothing
    const isTagged = tagged.some(({ tag, recipient }) => tag === transfer.tag && recipient === transfer.to);
    if (row && !(isTagged && isInferred(row.settledBy))) decided.set(transfer, toVerdict(row));
  }
  const open = transfers.filter((transfer) => !decided.has(transfer));
  return { decided, takenLinks: open.length > 0 ? await findDecidedLinks(tx, network, open) : [] };
}

function toVerdict(row: PastDecision): Verdict {
  const { linkId, pays, settlesPayment, settledBy, paymentId, claimId, candidates } = row;
  if (linkId === null || settledBy === null) return { candidates: candidates ?? [] };
  const ids = {
    ...(paymentId === null ? {} : { paymentId }),
    ...(claimId === null ? {} : { claimId }),
  };
  return { attribution: { linkId, pays, settlesPayment, settledBy, ...ids }, candidates: [] };
}
