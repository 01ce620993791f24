/**
 * Operations of our wallets without a row: after an older backup was restored, or a standby took over that lacked the
 * last commits. Their contents are read from the transactions that executed them.
 */
import { carriedOperations, findExecutedOperation } from "../../core/chain/executed-operations.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { findKnownHashes } from "../../db/wallet-ops/restored-operations.ts";
import type { BlockContent } from "./decode-logs.ts";
import { readTransactions, type TransactionReader } from "./read-transactions.ts";

/** The same blocks, with `executed` on operations whose row is lost. */
export async function withLostOperations(
  term: TransactionReader & { readonly sql: Sql },
  blocks: readonly BlockContent[],
): Promise<BlockContent[]> {
  const seen = blocks.flatMap(({ operations }) => operations);
  if (seen.length === 0) return [...blocks];
  const { sql, network, chain, log } = term;
  const hashes = seen.map(({ userOpHash }) => userOpHash);
  const known = new Set(await findKnownHashes(sql, network, hashes));
  const unknown = seen.filter(({ userOpHash }) => !known.has(userOpHash));
  if (unknown.length === 0) return [...blocks];
  const blockHashes = new Map(unknown.map(({ txHash, block }) => [txHash, block.hash]));
  const places = Array.from(blockHashes, ([hash, blockHash]) => ({ hash, blockHash }));
  const transactions = await readTransactions(term, places);
  const carried = new Map(
    Array.from(transactions, ([hash, transaction]) => [hash, carriedOperations(transaction, chain.network)]),
  );
  return blocks.map((content) => ({
    ...content,
    operations: content.operations.map((operation) => {
      const { userOpHash, txHash } = operation;
      const ran = known.has(userOpHash) ? undefined : carried.get(txHash);
      const executed = ran && findExecutedOperation(ran, { userOpHash, network: chain.network });
      if (!executed) return operation;
      log.warn(
        { network, txHash, userOpHash },
        "an operation without a row was recovered from its transaction",
      );
      return { ...operation, executed };
    }),
  }));
}
