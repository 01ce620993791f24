/** A send of which a node shows some transfers first, and the others when its block is read again: each is in the history once. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newTransactionId } from "../../core/domain/ids.ts";
import { compareWithSnapshot, dropChainRows, takeSnapshot } from "../../db/ledger/rebuild.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { findPastBoundTransfers, keepBoundTransfers } from "../../db/wallet-ops/missed-events.ts";
import { openHistory } from "../../db/wallet-ops/operations.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { applyMissedBlocks } from "../../indexer/settle/apply-missed-blocks.ts";
import { applySpan } from "../../indexer/settle/apply-span.ts";
import { settleTransfers } from "../../indexer/settle/settle-transfers.ts";
import type { BlockContent } from "../../indexer/source/decode-logs.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { makeBlock } from "../support/ledger-lab.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { randomAddress } from "../support/seed.ts";

setDefaultTimeout(120_000);
let lab: OperationLab;
beforeAll(async () => {
  lab = await openOperationLab();
});
afterAll(() => lab?.stop());

const [one, other] = [randomAddress(), randomAddress()];
/** Logs 0 to 3; the last one is the service's fee, to the wallet of a recipient. */
const ITEMS = [
  { to: one, amountUnits: 5n, note: "first", isFee: false },
  { to: other, amountUnits: 7n, note: "", isFee: false },
  { to: one, amountUnits: 5n, note: "second", isFee: false },
  { to: one, amountUnits: 5n, note: "", isFee: true },
];
const LOGS = ITEMS.map((_, index) => index);
const subsets = Array.from({ length: 2 ** LOGS.length - 1 }, (_, bits) =>
  LOGS.filter((log) => bits & (2 ** log)),
);

/** What `Settling` needs to read each of them again. */
const read: { address: string; content: BlockContent }[] = [];

for (const seenFirst of subsets)
  test(`of a send's transfers 0 to 3, [${seenFirst}] were read first`, async () => {
    const { sql } = lab;
    const queued = await lab.queued(undefined, 0n, { items: ITEMS });
    const history = { linkId: null, description: null, note: null };
    await openHistory(sql, queued, { ids: ITEMS.map(() => newTransactionId()), ...history });
    const [cursor] = await sql<{ number: bigint; hash: `0x${string}`; epoch: bigint }[]>`
      select number, hash, epoch from cursors where network = ${NETWORK}`;
    if (!cursor) throw new Error("no cursor");
    const isWatched = (address: string) => address === queued.address;
    const height = Number(cursor.number) + 1;
    const term = {
      ...{ sql, network: NETWORK, confirmations: 1, epoch: cursor.epoch, mismatchMinUnits: 0n },
      ...{ cursor: { number: height - 1, hash: cursor.hash }, watched: { has: isWatched, size: 1 } },
    } as unknown as Term;
    const [block, txHash] = [makeBlock(height), randomHash()];
    const { userOpHash, address } = queued;
    const operation = {
      ...{ block, txHash, logIndex: 4, previousLogIndex: -1, userOpHash, sender: address, nonce: 0n },
      ...{ succeeded: true, gasUsed: 1n, revertData: undefined },
    };
    const transfers = ITEMS.map(({ to, amountUnits }, logIndex) => ({
      ...{ block, txHash, logIndex, from: address, to, amountUnits, authorizationNonce: undefined },
    }));
    const content = { block, spent: [], operations: [operation], accountLogs: [], logCount: 5 };
    const shown = transfers.filter(({ logIndex }) => seenFirst.includes(logIndex));
    await applySpan(term, {
      ...{ blocks: [{ ...content, transfers: shown }], to: block, head: block, kept: [block] },
      ...{ depthNumber: height, confirmedAtS: () => block.timeS },
    });
    await applyMissedBlocks(term, [{ ...content, transfers }], isWatched);
    read.push({ address, content: { ...content, transfers } });
    const rows = await sql<{ logIndex: number; to: string; amountUnits: bigint; status: string }[]>`
      select history.log_index, item.to_address as to, item.amount_units, history.status
      from transactions history
      join wallet_operation_items item on item.id = history.operation_item_id
      where item.operation_id = ${queued.id} and history.owner = owner_key(${queued.userId})
      order by history.log_index`;
    expect([...rows]).toEqual(
      ITEMS.map(({ to, amountUnits }, logIndex) => ({ logIndex, to, amountUnits, status: "CONFIRMED" })),
    );
  });

test("a rebuild, which reads them together, leaves each transfer with its note", async () => {
  const { sql } = lab;
  const addresses = new Set(read.map(({ address }) => address));
  const contents = read.map(({ content }) => content);
  const notes = () => sql`
    select history.id, history.log_index, history.block_number, item.note
    from transactions history
    join wallet_operation_items item on item.id = history.operation_item_id
    order by history.id`;
  const before = [...(await notes())];
  expect(before).toHaveLength(ITEMS.length * subsets.length);
  const times = new Map(contents.map(({ block }) => [block.number, block.timeS]));
  const differences = await sql.begin(async (tx) => {
    await takeSnapshot(tx, NETWORK);
    await keepBoundTransfers(tx, NETWORK);
    await dropChainRows(tx, NETWORK);
    await settleTransfers(tx, {
      ...{ network: NETWORK, spent: [], findPastBound: findPastBoundTransfers },
      transfers: contents.flatMap(({ transfers }) => transfers),
      operations: contents.flatMap(({ operations }) => operations),
      isWatched: (address) => addresses.has(address),
      confirmedAtS: (number) => times.get(number),
    });
    await confirmDeepOperations(tx, { network: NETWORK, depthNumber: Math.max(...times.keys()) });
    return compareWithSnapshot(tx, NETWORK);
  });
  expect(differences).toEqual([]);
  expect([...(await notes())]).toEqual(before);
});
