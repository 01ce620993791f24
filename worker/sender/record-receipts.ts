/** Finds and records receipts of our own transactions: which attempt was mined, in which block, and at what cost. */

import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { fieldOf, parseQuantity } from "../../core/rpc/parse-answers.ts";
import type { InFlightRelay, RelayReceipt } from "../../db/relays/relays.ts";
import type { UnprovenRelay } from "../../db/relays/reorganised-relays.ts";

/** Receipts in one request. */
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

/** Receipts of those attempts of these relays that are in a block. A missing receipt proves nothing; the node may lag. */
export async function readReceipts(
  chain: Chain,
  relays: readonly InFlightRelay[],
): Promise<(RelayReceipt & { ageMs: number })[]> {
  const attempts = relays.flatMap((relay) => relay.attempts.map(({ txHash }) => ({ relay, txHash })));
  const receipts: (RelayReceipt & { ageMs: number })[] = [];
  for (let start = 0; start < attempts.length; start += BATCH_MAX) {
    const batch = attempts.slice(start, start + BATCH_MAX);
    const outcomes = await chain.batch(
      batch.map(({ txHash }) => ({ method: "eth_getTransactionReceipt", params: [txHash] })),
    );
    for (const [index, { relay }] of batch.entries()) {
      const outcome = outcomes[index];
      if (outcome?.ok && outcome.result !== null)
        receipts.push(toReceipt(relay, outcome.result as ReceiptJson));
    }
  }
  return receipts;
}

/** Relays whose receipt a node does not confirm: it reports another block, or none. Throws when no node responds. */
export async function findUnproven<T extends UnprovenRelay>(
  chain: Chain,
  relays: readonly T[],
): Promise<T[]> {
  if (relays.length === 0) return [];
  const outcomes = await chain.batch(
    relays.map(({ txHash }) => ({ method: "eth_getTransactionReceipt", params: [txHash] })),
  );
  return relays.filter(({ blockHash }, index) => {
    const outcome = outcomes[index];
    if (!outcome?.ok)
      throw outcome?.error ?? new RpcTransportError("malformed", "a receipt was not answered");
    return String(fieldOf(outcome.result, "blockHash")).toLowerCase() !== blockHash;
  });
}

/** Fee in wei: gas times price, plus the L1 data fee on OP chains. */
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
