/** Facilitated payments in a set of blocks: settled by the Transfer behind their AuthorizationUsed, although neither side is a watched wallet. */
import { authorizationKey } from "../../core/domain/authorization.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { loadFacilitatedPayments } from "../../db/payments/facilitated-payments.ts";
import { failSpentPayments, settlePayments } from "../../db/payments/settlement.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { SpentAuthorization } from "../source/decode-logs.ts";

/** Returns the payments whose state changed, and the keys of all authorizations that belong to facilitated payments, which pay no link. */
export async function settleFacilitated(
  tx: Tx,
  network: NetworkId,
  spent: readonly SpentAuthorization[],
  confirmedAtS: (blockNumber: number) => number | undefined,
): Promise<{ paymentIds: string[]; keys: Set<string> }> {
  const lane = { network, token: NETWORKS[network].usdc.address };
  const payments = await loadFacilitatedPayments(tx, lane, spent);
  if (payments.length === 0) return { paymentIds: [], keys: new Set() };
  const byKey = new Map(spent.map((one) => [authorizationKey(one.payer, one.nonce), one]));
  const settled = payments.flatMap(({ id, payer, nonce, recipient, amountUnits }) => {
    const transfer = byKey.get(authorizationKey(payer, nonce))?.transfer;
    // the payer may have signed the same nonce for another recipient, or cancelled it
    if (!transfer || transfer.to !== recipient || transfer.amountUnits !== amountUnits) return [];
    const { txHash, logIndex, blockNumber } = transfer;
    return [{ id, txHash, logIndex, blockNumber, isConfirmed: confirmedAtS(blockNumber) !== undefined }];
  });
  await settlePayments(tx, settled);
  const isSettled = new Set(settled.map(({ id }) => id));
  const dead = payments.flatMap((one) => (isSettled.has(one.id) ? [] : [{ ...one, isDeep: true }]));
  const failed = await failSpentPayments(tx, network, dead);
  return {
    paymentIds: [...isSettled, ...failed.map(({ id }) => id)],
    keys: new Set(payments.map(({ payer, nonce }) => authorizationKey(payer, nonce))),
  };
}
