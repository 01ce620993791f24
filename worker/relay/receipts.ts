/** Receipts of our own transactions: which attempt was mined, where, and what it cost. */
import type { Chain } from "../../core/chain/clients.ts";
import { parseQuantity } from "../../core/chain/rpc-answers.ts";
import type { InFlightRelay, RelayReceipt } from "../../db/relays.ts";

const BATCH_MAX = 500;

type ReceiptJson = {
  transactionHash: string;
  blockNumber: string;
  blockHash: string;
  status: string;
  gasUsed: string;
  effectiveGasPrice: string;
  l1Fee?: string;
};

/** One batch for all attempts of these relays. A missing receipt says nothing; the node may be behind. */
export async function readReceipts(
  chain: Chain,
  relays: readonly InFlightRelay[],
): Promise<(RelayReceipt & { ageMs: number })[]> {
  const asked = relays
    .flatMap((relay) => relay.attempts.map((attempt) => ({ relay, hash: attempt.txHash })))
    .slice(0, BATCH_MAX);
  if (asked.length === 0) return [];
  const outcomes = await chain.batch(
    asked.map(({ hash }) => ({ method: "eth_getTransactionReceipt", params: [hash] })),
  );
  return asked.flatMap(({ relay }, index) => {
    const outcome = outcomes[index];
    if (!outcome?.ok || outcome.result === null) return [];
    return [toReceipt(relay, outcome.result as ReceiptJson)];
  });
}

/** Fee in wei: gas times price, and on an OP chain what publishing to L1 cost. */
function toReceipt(relay: InFlightRelay, json: ReceiptJson): RelayReceipt & { ageMs: number } {
  const gasUsed = parseQuantity(json.gasUsed, "gasUsed");
  const l1Fee = json.l1Fee === undefined ? 0n : parseQuantity(json.l1Fee, "l1Fee");
  return {
    relayId: relay.id,
    ageMs: relay.attempts[0]?.ageMs ?? 0,
    txHash: json.transactionHash.toLowerCase(),
    blockNumber: parseQuantity(json.blockNumber, "blockNumber"),
    blockHash: json.blockHash.toLowerCase(),
    succeeded: parseQuantity(json.status, "status") === 1n,
    gasUsed,
    feeWei: gasUsed * parseQuantity(json.effectiveGasPrice, "effectiveGasPrice") + l1Fee,
  };
}
