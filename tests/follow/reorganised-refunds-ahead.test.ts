/** A refunded transfer that a reorganisation removed comes back within a range of a catch-up that waits for the previous one. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newLinkId, newRefundId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type Term, watchOf } from "../../indexer/leader-term.ts";
import { applyAfter, toSpan } from "../../indexer/settle/apply-span.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import {
  type Lab,
  type Merchant,
  makeMerchant,
  makePayer,
  NETWORK,
  openLab,
  openTerm,
  pay,
  settled,
  startIndexer,
} from "../support/indexer-lab.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
const UNITS = 7_000_000n;
/** Of the place that the transfer had. */
const ORPHANED_INDEX = 40;

let lab: Lab;
let merchant: Merchant;
let payer: Hex;
let term: Term & { close: () => void };
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
  const indexer = startIndexer(lab);
  await settled(lab);
  await indexer.stop();
  term = await openTerm(lab);
  term.isCatchingUp = true;
});
afterAll(async () => {
  term?.close();
  await lab?.stop();
});

/** The transfer of this transaction, removed by a reorganisation after it was refunded. */
async function seedOrphanedRefund(txHash: Hex): Promise<string> {
  const id = newRefundId(new Date());
  await lab.sql.begin(async (tx) => {
    // the refund's operation and link are not looked at
    await tx`set local session_replication_role = replica`;
    const [gone] = await tx<{ id: bigint }[]>`
      insert into transfers (
        network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units, status
      )
      values (
        ${NETWORK}, ${term.cursor.number + 1}, ${Buffer.alloc(32, 7)}, now(), ${txHash}, ${ORPHANED_INDEX}, ${payer},
        ${merchant.address}, ${UNITS}, 'ORPHANED'
      )
      returning id`;
    await tx`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units,
        orphaned_transfer_id
      )
      values (
        ${id}, ${merchant.userId}, ${newLinkId()}, ${NETWORK}, ${txHash}, ${ORPHANED_INDEX}, ${payer}, 'transfer_sender',
        ${UNITS}, ${gone?.id ?? 0n}
      )`;
  });
  return id;
}

test("a moved transfer's refund takes the new position with the range's commit, and is not locked until then", async () => {
  const txHash = await pay(lab, payer, merchant.address, UNITS);
  await waitForReceipt(lab.chain.rpcUrl, txHash);
  const refundId = await seedOrphanedRefund(txHash);
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("the node has no head");
  const range = { from: term.cursor.number + 1, to: head.number };
  const span = toSpan(term, await readRange(term.chain, range, watchOf(term.watched)), head);
  if (!span) throw new Error("no block was read");
  const before = Promise.withResolvers<void>();
  const { isUnrelated, applied } = applyAfter(term, span, {
    isUnrelated: Promise.resolve(true),
    applied: before.promise,
  });
  expect(await isUnrelated).toBe(true);
  const [place] = span.blocks.flatMap(({ transfers }) => transfers);
  const isStored = async () => {
    const waiting = await lab.sql`
      select from pg_stat_activity
      where datname = current_database() and state = 'idle in transaction' and query ilike '%transfers%'`;
    return waiting.length === 1;
  };
  while (!(await isStored())) await Bun.sleep(5);
  expect(await lab.sql`select id from refunds where id = ${refundId} for update nowait`).toHaveLength(1);
  before.resolve();
  await applied;
  const [refund] = await lab.sql<{ paidLogIndex: number; orphanedTransferId: bigint | null }[]>`
    select paid_log_index, orphaned_transfer_id from refunds where id = ${refundId}`;
  expect(refund).toEqual({ paidLogIndex: place?.logIndex ?? -1, orphanedTransferId: null });
});
