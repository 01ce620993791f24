/** Payments and claims that were made after the block that settles them was read: judged by the same rules, as if known then. And links let go. */
import { type Attribution, attributeTransfers } from "../core/domain/transfer.ts";
import { loadBooks, loadPayments } from "../db/attribution.ts";
import type { Tx } from "../db/client.ts";
import { holdEpoch } from "../db/cursors.ts";
import { assignTransfers, type BookedTransfer, findNamedTransfers } from "../db/late-settlement.ts";
import { tell } from "../db/outcome.ts";
import { findSpareTransfers } from "../db/released-links.ts";
import { refreshLinks } from "../db/settlement.ts";
import { settlePaymentsAndClaims } from "./settle-payments.ts";
import { settleReleased } from "./settle-released.ts";
import { FencedError, type Term } from "./term.ts";

/** Settles what can be settled from the books alone. Cheap when there is nothing. */
export async function settleLate(term: Term): Promise<void> {
  const { sql, network } = term;
  if ((await findNamedTransfers(sql, network)).length > 0) {
    await write(term, async (tx) => settleNamed(tx, term, await findNamedTransfers(tx, network)));
  }
  if ((await findSpareTransfers(sql, network)).length > 0)
    await write(term, (tx) => settleReleased(tx, network));
}

async function write({ sql, network, epoch }: Term, work: (tx: Tx) => Promise<void>): Promise<void> {
  await sql.begin(async (tx) => {
    if (!(await holdEpoch(tx, network, epoch))) throw new FencedError(network);
    await work(tx);
  });
}

async function settleNamed(tx: Tx, term: Term, booked: readonly BookedTransfer[]): Promise<void> {
  const { network } = term;
  const authorizations = booked.flatMap(({ from, authorizationNonce }) =>
    authorizationNonce ? [{ payer: from, nonce: authorizationNonce }] : [],
  );
  const payments = await loadPayments(tx, network, authorizations);
  const given = booked.map((one) => ({
    ...one,
    blockTimeMs: one.blockTime.getTime(),
    authorizationNonce: one.authorizationNonce ?? undefined,
  }));
  const found = attributeTransfers(given, await loadBooks(tx, network, { transfers: given, payments }));
  const late = booked.flatMap((transfer, index) => toLate(transfer, found[index]) ?? []);
  await assignTransfers(tx, late);
  const settled = await settlePaymentsAndClaims(tx, network, { payments, outcomes: late });
  const moves = await refreshLinks(tx, { linkIds: settled.linkIds, isReorg: false });
  await tell(tx, [...settled.paymentIds, ...moves.map(({ id }) => id)]);
}

function toLate(transfer: BookedTransfer, attribution: Attribution | undefined) {
  // counted for another link already: the first decision stands
  if (!attribution || (transfer.linkId !== null && transfer.linkId !== attribution.linkId)) return undefined;
  const { linkId, paymentId, claimId, settlesPayment = false } = attribution;
  const { id, txHash, logIndex, blockNumber, status } = transfer;
  return {
    ...{
      transferId: id,
      linkId,
      pays: attribution.pays || transfer.pays,
      paymentId,
      claimId,
      settlesPayment,
    },
    ...{ txHash, logIndex, blockNumber: Number(blockNumber), isConfirmed: status === "CONFIRMED" },
  };
}
