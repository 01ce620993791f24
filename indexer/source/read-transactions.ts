/**
 * Reads transactions by hash, verified by recomputing the hash. In batches that halve when a node refuses their size, since calldata may be
 * large; from other nodes when one returns something else; and from the whole block when no node has a transaction index.
 */

import { type VerifiedTransaction, verifyTransaction } from "../../core/chain/verify-transaction.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";
import type { RpcCall } from "../../core/rpc/node.ts";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import type { Log } from "../../core/runtime/log.ts";

/** Transactions per batch. */
const TRANSACTIONS_AT_ONCE = 50;
/** Further nodes asked before concluding that a transaction's hash cannot be recomputed from their responses. */
const NODES_MAX = 4;

export type TransactionReader = { readonly chain: Chain; readonly log: Log; readonly network: NetworkId };

export type TransactionPlace = { hash: Hex; blockHash: Hex };

/**
 * Throws RpcTransportError while no node has one of them. A transaction whose hash never matches is omitted, because its contents cannot be
 * trusted.
 */
export async function readTransactions(
  { chain, log, network }: TransactionReader,
  places: readonly TransactionPlace[],
): Promise<Map<Hex, VerifiedTransaction>> {
  const found = new Map<Hex, VerifiedTransaction>();
  for (let start = 0; start < places.length; start += TRANSACTIONS_AT_ONCE) {
    const batch = places.slice(start, start + TRANSACTIONS_AT_ONCE);
    const answers = await readBatch(chain, batch);
    for (const [index, place] of batch.entries()) {
      const transaction =
        verifyTransaction(answers[index], place.hash) ?? (await readFromOthers(chain, place));
      if (transaction) found.set(place.hash, transaction);
      else log.warn({ network, txHash: place.hash }, "no node returned a transaction that matches its hash");
    }
  }
  return found;
}

/** One node's results, null for what it refuses. A batch that fails as a whole is halved; a single call that fails throws. */
async function readBatch(chain: Chain, places: readonly TransactionPlace[]): Promise<unknown[]> {
  try {
    const outcomes = await chain.batch(places.map(transactionCall));
    return outcomes.map((outcome) => (outcome.ok ? outcome.result : null));
  } catch (error) {
    const isNodes = error instanceof RpcTransportError || error instanceof RpcResponseError;
    if (!isNodes || places.length === 1) throw error;
    const middle = places.length >> 1;
    const first = await readBatch(chain, places.slice(0, middle));
    return [...first, ...(await readBatch(chain, places.slice(middle)))];
  }
}

async function readFromOthers(
  chain: Chain,
  place: TransactionPlace,
): Promise<VerifiedTransaction | undefined> {
  let isKnown = false;
  for (const read of [readByHash, readInBlock]) {
    for (const node of chain.nodesByHealth().slice(0, NODES_MAX)) {
      const ask = (call: RpcCall) => chain.requestOn(node, call.method, call.params).catch(() => null);
      const answer = await read(ask, place);
      isKnown ||= answer !== null;
      const transaction = verifyTransaction(answer, place.hash);
      if (transaction) return transaction;
    }
    if (isKnown) return undefined;
  }
  throw new RpcTransportError("not-ready", `no node has transaction ${place.hash}`);
}

type Ask = (call: RpcCall) => Promise<unknown>;

function readByHash(ask: Ask, place: TransactionPlace): Promise<unknown> {
  return ask(transactionCall(place));
}

async function readInBlock(ask: Ask, { hash, blockHash }: TransactionPlace): Promise<unknown> {
  const block = await ask({ method: "eth_getBlockByHash", params: [blockHash, true] });
  const transactions = fieldOf(block, "transactions");
  if (!Array.isArray(transactions)) return null;
  return transactions.find((transaction) => fieldOf(transaction, "hash") === hash) ?? null;
}

function transactionCall({ hash }: TransactionPlace): RpcCall {
  return { method: "eth_getTransactionByHash", params: [hash] };
}
