/** Decisions about transfers that a rebuild does not make again: what had been decided stands, the rest is judged beside it. */
import type { Attribution } from "../core/domain/transfer.ts";
import type { Tx } from "../db/client.ts";
import { findDecidedLinks, findDecisions, type PastDecision } from "../db/past-decisions.ts";
import type { SeenTransfer } from "./usdc-logs.ts";

export type Standing = {
  /** Undefined: decided to be received without a link. */
  decided: ReadonlyMap<SeenTransfer, Attribution | undefined>;
  /** Links that the others can't pay: a transfer does whose decision stands, perhaps a later one. */
  takenLinkIds: readonly string[];
};

export const NOTHING_STANDS: Standing = { decided: new Map(), takenLinkIds: [] };

/** Of these transfers, in the chain's order. Call inside a transaction after `keepDecisions`. */
export async function findStanding(tx: Tx, transfers: readonly SeenTransfer[]): Promise<Standing> {
  const [first, last] = [transfers[0], transfers.at(-1)];
  if (!first || !last) return NOTHING_STANDS;
  const rows = await findDecisions(tx, { from: first.block.number, to: last.block.number });
  const byPlace = new Map(rows.map((row) => [`${row.blockHash}:${row.logIndex}`, row]));
  const decided = new Map<SeenTransfer, Attribution | undefined>();
  for (const transfer of transfers) {
    const row = byPlace.get(`${transfer.block.hash}:${transfer.logIndex}`);
    if (row) decided.set(transfer, toAttribution(row));
  }
  const open = transfers.filter((transfer) => !decided.has(transfer));
  return { decided, takenLinkIds: open.length > 0 ? await findDecidedLinks(tx, open) : [] };
}

function toAttribution(row: PastDecision): Attribution | undefined {
  const { linkId, pays, paymentId, settlesPayment, claimId } = row;
  if (linkId === null) return undefined;
  return {
    ...{ linkId, pays, settlesPayment },
    ...(paymentId === null ? {} : { paymentId }),
    ...(claimId === null ? {} : { claimId }),
  };
}
