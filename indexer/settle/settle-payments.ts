/** Settles payments and claims by the attributions of a set of transfers, or ends those that can no longer be settled. */

import type { Attribution } from "../../core/domain/attribute-transfers.ts";
import type { PaymentFacts } from "../../core/domain/ledger-snapshot.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import {
  failSpentPayments,
  matchClaims,
  type SettledPayment,
  settlePayments,
} from "../../db/payments/settlement.ts";
import type { Tx } from "../../db/postgres/client.ts";

type Outcome = Pick<Attribution, "linkId"> &
  Omit<SettledPayment, "id"> & {
    paymentId?: string | undefined;
    settlesPayment?: boolean;
    claimId?: string | undefined;
  };

/**
 * `payments` are those whose nonces were spent, confirmed or not; `outcomes` are the attributions of their transfers. Returns the payments whose
 * state changed and all affected links.
 */
export async function settlePaymentsAndClaims(
  tx: Tx,
  network: NetworkId,
  {
    payments,
    outcomes,
    isDeep,
  }: {
    payments: readonly PaymentFacts[];
    outcomes: readonly Outcome[];
    isDeep: (payment: PaymentFacts) => boolean;
  },
): Promise<{ paymentIds: string[]; linkIds: string[] }> {
  const settled = outcomes.flatMap(
    ({ paymentId, settlesPayment, txHash, logIndex, blockNumber, isConfirmed }) =>
      paymentId && settlesPayment ? [{ id: paymentId, txHash, logIndex, blockNumber, isConfirmed }] : [],
  );
  const isSettled = new Set(settled.map(({ id }) => id));
  const dead = payments.flatMap((one) =>
    one.isFailed || isSettled.has(one.id) ? [] : [{ ...one, isDeep: isDeep(one) }],
  );
  const claimIds = outcomes.flatMap(({ claimId }) => claimId ?? []);
  const [failed] = await Promise.all([
    failSpentPayments(tx, network, dead),
    settlePayments(tx, settled),
    matchClaims(tx, claimIds),
  ]);
  return {
    paymentIds: [...isSettled, ...failed.map(({ id }) => id)],
    linkIds: [...outcomes.map(({ linkId }) => linkId), ...failed.flatMap(({ linkId }) => linkId ?? [])],
  };
}
