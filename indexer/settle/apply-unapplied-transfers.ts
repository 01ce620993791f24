/** Makes a surplus transfer pay its link when the payment or transfer that held the link is gone. */

import { lockLinks } from "../../db/links/lock-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { findUnappliedTransfers } from "../../db/links/unapplied-transfers.ts";
import { lockPayments } from "../../db/payments/payments.ts";
import { assignTransfers } from "../../db/payments/retroactive-attribution.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { Term } from "../leader-term.ts";
import { settlePaymentsAndClaims } from "./settle-payments.ts";

/** Call in a transaction that holds the cursor: no other transaction writes transfers then. */
export async function applyUnappliedTransfers(
  tx: Tx,
  term: Pick<Term, "network" | "mismatchMinUnits">,
): Promise<void> {
  const { network } = term;
  const seen = await findUnappliedTransfers(tx, network);
  if (seen.length === 0) return;
  await lockPayments(
    tx,
    seen.flatMap(({ paymentId }) => paymentId ?? []),
  );
  const locked = new Set(seen.map(({ linkId }) => linkId));
  await lockLinks(tx, [...locked]);
  // a new snapshot, to see what others accepted or released while we waited for the locks
  const spare = (await findUnappliedTransfers(tx, network)).filter(({ linkId }) => locked.has(linkId));
  const outcomes = spare.map(({ paymentId, claimId, status, blockNumber, ...transfer }) => ({
    ...{ ...transfer, blockNumber: Number(blockNumber), isConfirmed: status === "CONFIRMED" },
    paymentId: paymentId ?? undefined,
    claimId: claimId ?? undefined,
    pays: true,
    settledBy: transfer.settledBy ?? undefined,
    settlesPayment: paymentId !== null,
  }));
  await assignTransfers(tx, outcomes);
  const settled = await settlePaymentsAndClaims(tx, network, { payments: [], outcomes, isDeep: () => true });
  await recomputeLinkStatus(tx, {
    linkIds: settled.linkIds,
    isReorg: false,
    mismatchMinUnits: term.mismatchMinUnits,
  });
  await notify(tx, settled.paymentIds);
}
