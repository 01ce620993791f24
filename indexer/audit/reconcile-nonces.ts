/**
 * Reconciles accounts' nonces with the recorded operations: a nonce spent on chain without a recorded operation means
 * that an operation's log was not read.
 */
import { ANY_CHAIN_NONCE_KEY } from "../../core/chain/owner-operation.ts";
import { readAccountNonces } from "../../core/chain/passkey-account.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { findNextBlock } from "../../db/ledger/blocks.ts";
import { recordReconciliation } from "../../db/ledger/reconciliation.ts";
import { forgetOpenings } from "../../db/ledger/wallet-backfills.ts";
import { findUnspentNonces, type UnspentNonce } from "../../db/wallet-ops/missed-events.ts";
import type { Term } from "../leader-term.ts";
import { applyMissedBlocks } from "../settle/apply-missed-blocks.ts";
import { readHeader } from "../source/block-header.ts";
import { readPast } from "../source/past-logs.ts";
import { findFirstBlockSince } from "./backfill-wallets.ts";

/** Blocks near the head that are not compared yet. */
const BEHIND_BLOCKS = 8;
const WALLETS_MAX = 500;
const DETAILS_MAX = 50;

/** Compares the wallets with operations not known to be executed. Returns the nonces that no recorded operation explains. */
export async function reconcileNonces(term: Term): Promise<number> {
  const ordinary = await reconcileKey(term, 0n);
  // on a network set up later, third parties may already have executed what was signed for every network
  return ordinary + (await reconcileKey(term, ANY_CHAIN_NONCE_KEY));
}

async function reconcileKey(term: Term, key: bigint): Promise<number> {
  const { network, sql, chain } = term;
  const number = term.cursor.number - BEHIND_BLOCKS;
  if (number < 0) return 0;
  const waiting = await findUnspentNonces(sql, network, { key, number, limit: WALLETS_MAX });
  if (waiting.length === 0) return 0;
  const header = await readHeader(chain, number);
  if (!header) throw new RpcTransportError("not-ready", `no node knows block ${number}`);
  const accounts = waiting.map(({ address }) => address);
  const block = { blockHash: header.hash, requireCanonical: true } as const;
  const nonces = await readAccountNonces(chain, accounts, { key, block });
  const missed = waiting.filter(({ accountNonce }, index) => (nonces[index] ?? 0n) > accountNonce);
  // on such a network this reads blocks before that of the wallet's opening balance
  if (key !== 0n)
    await forgetOpenings(
      sql,
      network,
      missed.map(({ address }) => address),
    );
  const repaired = missed.length === 0 ? 0 : await readMissed(term, missed, number);
  const differences = missed.length;
  await recordReconciliation(sql, {
    network,
    kind: "NONCES",
    fromBlock: number,
    toBlock: number,
    checked: waiting.length,
    differences,
    repaired: Math.min(repaired, differences),
    details: missed.slice(0, DETAILS_MAX).map(({ address, accountNonce }) => ({
      address,
      nonce: accountNonce.toString(),
    })),
  });
  if (differences > 0)
    term.log.error(
      { network, block: number, differences, repaired },
      "nonces spent without a recorded operation",
    );
  return differences;
}

/** Reads these wallets' records since the oldest of their operations was prepared. Returns the number of new transfers and operations. */
async function readMissed(term: Term, missed: readonly UnspentNonce[], to: number): Promise<number> {
  const oldestMs = Math.min(...missed.map(({ preparedAt }) => preparedAt.getTime()));
  const from = await findFirstBlockSince(term, oldestMs, to);
  const addresses = missed.map(({ address }) => address);
  const wanted = new Set(addresses);
  let found = 0;
  const anchor = await findNextBlock(term.sql, term.network, to);
  for await (const { blocks } of readPast(term.chain, { from, to, addresses, anchor })) {
    if (term.signal.aborted) return found;
    if (blocks.length > 0) found += await applyMissedBlocks(term, blocks, (address) => wanted.has(address));
  }
  return found;
}
