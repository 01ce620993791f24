/** Payments and claims that were made after the block that settles them was read: judged by the same rules, as if known then. */
import { attributeTransfers } from "../core/domain/transfer.ts";
import { loadBooks, loadPayments } from "../db/attribution.ts";
import type { Tx } from "../db/client.ts";
import { holdEpoch } from "../db/cursors.ts";
import {
  assignTransfers,
  type BookedTransfer,
  findNamedTransfers,
  type LateAttribution,
} from "../db/late-settlement.ts";
import { tell } from "../db/outcome.ts";
import { failSpentPayments, matchClaims, refreshLinks, settlePayments } from "../db/settlement.ts";
import { FencedError, type Term } from "./term.ts";

/** Settles what can be settled from the books alone. Cheap when there is nothing. */
export async function settleLate(term: Term): Promise<void> {
  const { sql, network, epoch } = term;
  if ((await findNamedTransfers(sql, network)).length === 0) return;
  await sql.begin(async (tx) => {
    if (!(await holdEpoch(tx, network, epoch))) throw new FencedError(network);
    await settleNamed(tx, term, await findNamedTransfers(tx, network));
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
  const found = attributeTransfers(given, await loadBooks(tx, network, given, payments));
  const late: (LateAttribution & { settles: boolean })[] = [];
  for (const [index, transfer] of booked.entries()) {
    const attribution = found[index];
    // counted for another link already: the first decision stands
    if (!attribution || (transfer.linkId !== null && transfer.linkId !== attribution.linkId)) continue;
    const pays = attribution.pays || transfer.pays;
    const { linkId, paymentId, claimId, settlesPayment = false } = attribution;
    late.push({ transferId: transfer.id, linkId, pays, paymentId, claimId, settles: settlesPayment });
  }
  await assignTransfers(tx, late);
  const byId = new Map(booked.map((one) => [one.id, one]));
  const settled = late.flatMap(({ transferId, paymentId, settles }) => {
    const transfer = byId.get(transferId);
    if (!transfer || !paymentId || !settles) return [];
    const { txHash, logIndex, blockNumber, status } = transfer;
    return [
      {
        id: paymentId,
        txHash,
        logIndex,
        blockNumber: Number(blockNumber),
        isConfirmed: status === "CONFIRMED",
      },
    ];
  });
  await settlePayments(tx, settled);
  await matchClaims(
    tx,
    late.flatMap(({ claimId }) => claimId ?? []),
  );
  const isSettled = new Set(settled.map(({ id }) => id));
  const dead = payments.filter((payment) => !payment.isFailed && !isSettled.has(payment.id));
  const failed = await failSpentPayments(tx, network, dead);
  const moves = await refreshLinks(tx, {
    linkIds: [...late.map(({ linkId }) => linkId), ...failed.flatMap(({ linkId }) => linkId ?? [])],
    depthNumber: term.cursor.number - term.confirmations + 1,
    isReorg: false,
  });
  await tell(tx, [...isSettled, ...failed.map(({ id }) => id), ...moves.map(({ id }) => id)]);
}
