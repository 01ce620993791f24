/**
 * Reads link tags of transfers to our wallets from their transactions. Only when no accepted authorization already explains a transfer,
 * and the wallet has links that a tag could name.
 */

import { type FoundTag, tagOfTransaction } from "../../core/chain/transaction-tags.ts";
import type { VerifiedTransaction } from "../../core/chain/verify-transaction.ts";
import { isTimely } from "../../core/domain/attribute-transfers.ts";
import { authorizationKey } from "../../core/domain/authorization.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { listRelayerAddresses } from "../../db/health/component-status.ts";
import { findPayments } from "../../db/ledger/attribution.ts";
import { findFirstLinks } from "../../db/links/first-link-times.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { BlockContent, SeenTransfer } from "./decode-logs.ts";
import { readTransactions, type TransactionReader } from "./read-transactions.ts";

/** Tolerance between the chain's clock and the database's: transfers older than a wallet's first link cannot carry its tags. */
const CLOCK_SKEW_MS = 15 * 60_000;

type TagTerm = TransactionReader & { readonly sql: Sql };

/** The same blocks, with `tag` on the transfers whose transactions carry one. `isWatched`: the relevant wallets. */
export async function withTags(
  term: TagTerm,
  blocks: readonly BlockContent[],
  isWatched: (address: Hex) => boolean,
): Promise<BlockContent[]> {
  const incoming = blocks.flatMap(({ transfers }) => transfers.filter(({ to }) => isWatched(to)));
  const open = await findUnexplained(term, incoming);
  if (open.length === 0) return [...blocks];
  const blockHashes = new Map(open.map(({ txHash, block }) => [txHash, block.hash]));
  const places = Array.from(blockHashes, ([hash, blockHash]) => ({ hash, blockHash }));
  const [transactions, addresses] = await Promise.all([
    readTransactions(term, places),
    listRelayerAddresses(term.sql, term.network),
  ]);
  const relayers = new Set<string>(addresses);
  const tags = new Map(
    open.map((transfer) => [
      transfer,
      readTag(term.chain, transactions.get(transfer.txHash), transfer, relayers),
    ]),
  );
  return blocks.map((block) => ({
    ...block,
    transfers: block.transfers.map((transfer) => {
      const tag = tags.get(transfer);
      return tag ? { ...transfer, ...tag } : transfer;
    }),
  }));
}

async function findUnexplained(
  { sql, network }: TagTerm,
  transfers: readonly SeenTransfer[],
): Promise<SeenTransfer[]> {
  if (transfers.length === 0) return [];
  const [firstLinks, payments] = await Promise.all([
    firstLinksOf(sql, network, new Set(transfers.map(({ to }) => to))),
    findPayments(
      sql,
      network,
      transfers.flatMap(({ from, authorizationNonce: nonce, txHash }) =>
        nonce ? [{ payer: from, nonce, txHash }] : [],
      ),
    ),
  ]);
  const byKey = new Map(payments.map((payment) => [authorizationKey(payment.payer, payment.nonce), payment]));
  return transfers.filter(({ to, from, amountUnits, authorizationNonce, txHash, block }) => {
    const madeMs = firstLinks.get(to)?.getTime();
    if (madeMs === undefined || block.timeS * 1000 < madeMs - CLOCK_SKEW_MS) return false;
    const payment = authorizationNonce && byKey.get(authorizationKey(from, authorizationNonce));
    if (!payment || payment.recipient !== to || payment.amountUnits !== amountUnits) return true;
    return !isTimely(payment, { txHash, blockNumber: block.number, blockTimeMs: block.timeS * 1000 });
  });
}

/** By network and address. Links are never deleted, so a wallet's first one can be cached; a wallet without any is queried again. */
const knownFirstLinks = new WeakMap<Sql, Map<string, Date>>();
/** About 300 bytes each. */
const FIRST_LINKS_KEPT = 10_000;

async function firstLinksOf(
  sql: Sql,
  network: NetworkId,
  addresses: ReadonlySet<Hex>,
): Promise<Map<Hex, Date>> {
  const known = knownFirstLinks.get(sql) ?? new Map<string, Date>();
  knownFirstLinks.set(sql, known);
  const keyOf = (address: Hex) => `${network}:${address}`;
  const firstLinks = new Map<Hex, Date>();
  const unknown: Hex[] = [];
  for (const address of addresses) {
    const madeAt = known.get(keyOf(address));
    if (madeAt) firstLinks.set(address, madeAt);
    else unknown.push(address);
  }
  if (unknown.length === 0) return firstLinks;
  const found = await findFirstLinks(sql, network, unknown);
  if (known.size + found.size > FIRST_LINKS_KEPT) known.clear();
  for (const [address, madeAt] of found) {
    known.set(keyOf(address), madeAt);
    firstLinks.set(address, madeAt);
  }
  return firstLinks;
}

function readTag(
  chain: Chain,
  transaction: VerifiedTransaction | undefined,
  transfer: SeenTransfer,
  relayers: ReadonlySet<string>,
): FoundTag | undefined {
  if (!transaction) return undefined;
  const usdc = chain.network.usdc.address;
  return tagOfTransaction(transaction, transfer, { usdc, isRelayer: (address) => relayers.has(address) });
}
