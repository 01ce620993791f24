/** Facilitated payments in a set of blocks: settled by the Transfer behind their AuthorizationUsed, although neither side is a watched wallet. */
import { isTimely, placeKey } from "../../core/domain/attribute-transfers.ts";
import { authorizationKey } from "../../core/domain/authorization.ts";
import type { AttributableTransfer } from "../../core/domain/ledger-snapshot.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { type FacilitatedFacts, loadFacilitatedPayments } from "../../db/payments/facilitated-payments.ts";
import { failSpentPayments, settlePayments } from "../../db/payments/settlement.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { SpentAuthorization } from "../source/decode-logs.ts";

type Blocks = {
  spent: readonly SpentAuthorization[];
  /** To watched wallets. */
  incoming: readonly AttributableTransfer[];
  confirmedAtS: (blockNumber: number) => number | undefined;
};

/** Returns the payments whose state changed, and the keys of the authorizations that settled one, whose transfers pay no link. */
export async function settleFacilitated(
  tx: Tx,
  network: NetworkId,
  { spent, incoming, confirmedAtS }: Blocks,
): Promise<{ paymentIds: string[]; keys: Set<string> }> {
  const lane = { network, token: NETWORKS[network].usdc.address };
  const payments = await loadFacilitatedPayments(
    tx,
    lane,
    spent.map(({ payer, nonce, transfer }) => ({ payer, nonce, txHash: transfer?.txHash })),
  );
  if (payments.length === 0) return { paymentIds: [], keys: new Set() };
  const byKey = new Map(spent.map((one) => [authorizationKey(one.payer, one.nonce), one]));
  const ours = new Map(incoming.map((one) => [placeKey(one), one]));
  const settled = payments.flatMap((payment) => {
    const transfer = byKey.get(authorizationKey(payment.payer, payment.nonce))?.transfer;
    if (!transfer || !isSettledBy(payment, transfer, ours.get(placeKey(transfer)))) return [];
    const { txHash, logIndex, blockNumber } = transfer;
    const isConfirmed = confirmedAtS(blockNumber) !== undefined;
    return [{ ...payment, txHash, logIndex, blockNumber, isConfirmed }];
  });
  await settlePayments(tx, settled);
  const isSettled = new Set(settled.map(({ id }) => id));
  const dead = payments.flatMap((one) => (isSettled.has(one.id) ? [] : [{ ...one, isDeep: true }]));
  const failed = await failSpentPayments(tx, network, dead);
  return {
    paymentIds: [...isSettled, ...failed.map(({ id }) => id)],
    keys: new Set(settled.map(({ payer, nonce }) => authorizationKey(payer, nonce))),
  };
}

/**
 * The payer may have signed the same nonce for another recipient. `ours`: the transfer when it reached a watched wallet. There it may pay a link,
 * unless it was shown here before its block: afterwards anybody can show it.
 */
function isSettledBy(
  payment: FacilitatedFacts,
  transfer: NonNullable<SpentAuthorization["transfer"]>,
  ours: AttributableTransfer | undefined,
): boolean {
  if (transfer.to !== payment.recipient || transfer.amountUnits !== payment.amountUnits) return false;
  return ours ? isTimely(payment, ours) : wasShownBefore(payment, transfer);
}

/**
 * By height, and by time where the ledger lagged behind the block when the payment was shown. A transfer to somebody else pays nothing else
 * here, so the block's own second still counts as before.
 */
function wasShownBefore(
  { wasSettled, relayHashes, acceptedBlock, acceptedAtMs }: FacilitatedFacts,
  { txHash, blockNumber, blockTimeS }: NonNullable<SpentAuthorization["transfer"]>,
): boolean {
  if (wasSettled || relayHashes.includes(txHash)) return true;
  if (acceptedAtMs >= (blockTimeS + 1) * 1_000) return false;
  return acceptedBlock === undefined || acceptedBlock < blockNumber;
}
