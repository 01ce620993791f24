/** A refund whose transfer a node left out, but not its operation: its credit note follows when the transfer is found. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId, newTransactionId } from "../../core/domain/ids.ts";
import { openHistory } from "../../db/wallet-ops/operations.ts";
import { insertRefund } from "../../db/wallet-ops/refunds.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { applyMissedBlocks } from "../../indexer/settle/apply-missed-blocks.ts";
import { applySpan } from "../../indexer/settle/apply-span.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { makeBlock } from "../support/ledger-lab.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { bookDocuments } from "./book-documents.ts";

setDefaultTimeout(120_000);
const UNITS = 5n;

let lab: OperationLab;
let merchant: SeededMerchant;
let link: string;
beforeAll(async () => {
  lab = await openOperationLab();
  merchant = await seedMerchant(lab.sql);
  link = await seedLink(lab.sql, merchant);
});
afterAll(() => lab?.stop());

const { paid, issue } = bookDocuments(() => ({ lab, sql: lab.sql, merchant, link }));

/** A refund of the link that waits for its block. */
async function queueRefund(to: `0x${string}`) {
  const { sql } = lab;
  const paidTxHash = await paid();
  const id = newRefundId(new Date());
  const { userId, walletId, address } = merchant;
  const owner = { id, userId, walletId, address, userOpHash: randomHash() };
  const items = [{ to, amountUnits: UNITS, note: "", isFee: false }];
  const queued = await lab.queued(owner, 0n, { id, kind: "REFUND", items });
  await insertRefund(sql, {
    ...{ id, userId, linkId: link, network: NETWORK, paidTxHash, paidLogIndex: 1 },
    ...{ toAddress: to, toSource: "given", amountUnits: UNITS, reason: null },
  });
  const history = { ids: [newTransactionId()], linkId: link, description: null, note: null };
  await openHistory(sql, queued, history);
  return queued;
}

async function takeDocumentJobs(): Promise<string[]> {
  const jobs = await lab.sql<{ payload: { linkIds: string[] } }[]>`
    delete from graphile_worker._private_jobs jobs
    using graphile_worker._private_tasks tasks
    where tasks.id = jobs.task_id and tasks.identifier = 'issue_documents'
    returning payload`;
  return jobs.flatMap(({ payload }) => payload.linkIds);
}

const creditNotes = () => lab.sql`select from documents where link_id = ${link} and kind = 'CREDIT_NOTE'`;

test("the transfer of a refund that is CONFIRMED already requests its credit note", async () => {
  const to = randomAddress();
  const { userOpHash } = await queueRefund(to);
  const [cursor] = await lab.sql<{ hash: `0x${string}`; epoch: bigint }[]>`select hash, epoch from cursors`;
  if (!cursor) throw new Error("no cursor");
  const isWatched = (address: string) => address === merchant.address;
  const term = {
    ...{ sql: lab.sql, network: NETWORK, confirmations: 1, epoch: cursor.epoch, mismatchMinUnits: 0n },
    ...{ cursor: { number: 100, hash: cursor.hash }, watched: { has: isWatched, size: 1 } },
  } as unknown as Term;
  const [block, txHash] = [makeBlock(101), randomHash()];
  const operation = {
    ...{ block, txHash, logIndex: 2, previousLogIndex: -1, userOpHash, sender: merchant.address, nonce: 0n },
    ...{ succeeded: true, gasUsed: 1n, revertData: undefined },
  };
  const transfer = {
    ...{ block, txHash, logIndex: 1, from: merchant.address, to, amountUnits: UNITS },
    authorizationNonce: undefined,
  };
  const content = { block, spent: [], operations: [operation], accountLogs: [], logCount: 2 };
  await applySpan(term, {
    ...{ blocks: [{ ...content, transfers: [] }], to: block, head: block, kept: [block], depthNumber: 101 },
    confirmedAtS: () => block.timeS,
  });
  await issue(...(await takeDocumentJobs()));
  expect(await creditNotes()).toHaveLength(0);

  await applyMissedBlocks(term, [{ ...content, transfers: [transfer] }], isWatched);
  await issue(...(await takeDocumentJobs()));
  expect(await creditNotes()).toHaveLength(1);
});
