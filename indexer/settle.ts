/** What a set of transfers does to the books, inside the caller's transaction. Used at the head, in ranges, in backfills and in rebuilds. */

import type { Hex, NetworkId } from "../core/domain/networks.ts";
import { type Attribution, attributeTransfers, authorizationKey } from "../core/domain/transfer.ts";
import { loadBooks, loadPayments } from "../db/attribution.ts";
import type { Tx } from "../db/client.ts";
import { failSpentPayments, matchClaims, settlePayments } from "../db/settlement.ts";
import { storeTransfers } from "../db/transfers.ts";
import { settleFacilitated } from "./settle-facilitated.ts";
import type { SeenTransfer, SpentAuthorization } from "./usdc-logs.ts";

export type Settling = {
  network: NetworkId;
  /** In the chain's order; all touch a watched wallet. */
  transfers: readonly SeenTransfer[];
  spent: readonly SpentAuthorization[];
  isWatched: (address: Hex) => boolean;
  /** Near the head, as opposed to a past that is read up. */
  isNews: boolean;
  /** Time of the block that makes this height deep enough; undefined while there is none. */
  confirmedAtS: (blockNumber: number) => number | undefined;
};

export type Touched = { linkIds: string[]; paymentIds: string[] };

/** Stores the transfers with their links, settles payments and claims. The links named in the answer still have to be refreshed. */
export async function settleTransfers(tx: Tx, settling: Settling): Promise<Touched> {
  const { network, transfers, spent, confirmedAtS } = settling;
  if (transfers.length === 0 && spent.length === 0) return { linkIds: [], paymentIds: [] };
  const facilitated = await settleFacilitated(tx, network, spent, confirmedAtS);
  const payments = await loadPayments(tx, network, spent);
  const incoming = transfers.filter(({ to, from, authorizationNonce: nonce }) => {
    const isElsewhere = nonce !== undefined && facilitated.keys.has(authorizationKey(from, nonce));
    return settling.isWatched(to) && !isElsewhere;
  });
  const attributions = await attribute(tx, network, incoming, payments);
  await storeTransfers(
    tx,
    network,
    transfers.map((transfer) => {
      const { block } = transfer;
      const attribution = attributions.get(transfer);
      return {
        ...transfer,
        blockNumber: block.number,
        blockHash: block.hash,
        blockTimeS: block.timeS,
        confirmedAtS: confirmedAtS(block.number),
        linkId: attribution?.linkId,
        pays: attribution?.pays ?? false,
        paymentId: attribution?.paymentId,
        historyPaymentId: attribution?.settlesPayment ? attribution.paymentId : undefined,
        historyClaimId: attribution?.claimId,
      };
    }),
    { isNews: settling.isNews },
  );
  const settled = [...attributions].flatMap(
    ([{ txHash, logIndex, block }, { paymentId, settlesPayment }]) => {
      const isConfirmed = confirmedAtS(block.number) !== undefined;
      return paymentId && settlesPayment
        ? [{ id: paymentId, txHash, logIndex, blockNumber: block.number, isConfirmed }]
        : [];
    },
  );
  await settlePayments(tx, settled);
  await matchClaims(
    tx,
    [...attributions.values()].flatMap(({ claimId }) => claimId ?? []),
  );
  const isSettled = new Set(settled.map(({ id }) => id));
  // a payment to a wallet that has not joined yet is judged when its blocks are read again
  const dead = payments.filter(
    (payment) => !payment.isFailed && !isSettled.has(payment.id) && settling.isWatched(payment.recipient),
  );
  const failed = await failSpentPayments(tx, network, dead);
  return {
    linkIds: [
      ...[...attributions.values()].map(({ linkId }) => linkId),
      ...failed.flatMap(({ linkId }) => linkId ?? []),
    ],
    paymentIds: [...facilitated.paymentIds, ...isSettled, ...failed.map(({ id }) => id)],
  };
}

async function attribute(
  tx: Tx,
  network: NetworkId,
  transfers: readonly SeenTransfer[],
  payments: Awaited<ReturnType<typeof loadPayments>>,
): Promise<Map<SeenTransfer, Attribution>> {
  const answers = new Map<SeenTransfer, Attribution>();
  if (transfers.length === 0) return answers;
  const given = transfers.map((transfer) => ({ ...transfer, blockTimeMs: transfer.block.timeS * 1000 }));
  const nonces = new Set(
    given.flatMap((one) =>
      one.authorizationNonce ? [authorizationKey(one.from, one.authorizationNonce)] : [],
    ),
  );
  const own = payments.filter((payment) => nonces.has(authorizationKey(payment.payer, payment.nonce)));
  const found = attributeTransfers(given, await loadBooks(tx, network, given, own));
  for (const [index, transfer] of transfers.entries()) {
    const attribution = found[index];
    if (attribution) answers.set(transfer, attribution);
  }
  return answers;
}
