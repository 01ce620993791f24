/** What a replacement of a payments relay carries: what the first attempt did, without payments whose links have been paid since by another transfer. */
import { buildPaymentsCall } from "../../core/chain/relay.ts";
import type { Network } from "../../core/domain/networks.ts";
import { findSignedPayments, judgeForSigning, lockForSigning } from "../../db/payments/signing-fence.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { InFlightRelay } from "../../db/relays/relays.ts";
import { noopOf, type Revised, repeatCall } from "../sender/relay-kind.ts";
import { toItem } from "./items.ts";

/**
 * Asks the fence again, at the head the fees were read at, under locks that last until `tx` ends. Undefined while the ledger can't tell:
 * then nothing new may be signed.
 */
export async function revisePayments(
  tx: Tx,
  network: Network,
  relay: InFlightRelay,
  { headNumber }: { headNumber: bigint },
): Promise<Revised | undefined> {
  const signed = await findSignedPayments(tx, relay.id);
  const paymentIds = signed.map(({ id }) => id);
  const [, verdicts] = await Promise.all([
    lockForSigning(tx, paymentIds),
    judgeForSigning(
      tx,
      { network: network.id, headNumber, unread: undefined },
      { paymentIds, state: "SIGNED" },
    ),
  ]);
  const having = (wanted: string) => signed.filter(({ id }) => verdicts.get(id) === wanted);
  if (having("early").length > 0) return undefined;
  const leftOut = having("paid").map(({ id }) => id);
  if (leftOut.length === 0) return repeatCall(tx, network, relay);
  const kept = having("free");
  if (kept.length === 0) return noopOf(relay);
  return { call: buildPaymentsCall(network, kept.map(toItem)), isNoop: false, leftOut };
}
