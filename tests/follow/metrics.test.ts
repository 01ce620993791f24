/** What an operator sees of the indexer: how far behind it is, and that no node answers it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { pruneBlocks } from "../../db/ledger/blocks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import {
  headOf,
  type Lab,
  type Merchant,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  pay,
  type RunningIndexer,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
/** The first comparison of a leader comes after a minute. */
const BEFORE_COMPARISON_MS = 45_000;

let lab: Lab;
let proxy: FaultProxy;
let indexer: RunningIndexer;
let merchant: Merchant;
beforeAll(async () => {
  lab = await openLab();
  proxy = await startFaultProxy(lab.chain.rpcUrl, { random: seededRandom("metrics") });
  indexer = startIndexer(lab, { urls: [proxy.url] });
  merchant = await makeMerchant(lab);
});
afterAll(async () => {
  await indexer?.stop();
  await proxy?.stop();
  await lab?.stop();
});

test("the lag is reported in blocks and seconds, and is not small when no node answers for the head", async () => {
  await mine(lab, 3);
  await settled(lab);
  const { number } = await headOf(lab);
  await until("all is reported", async () => (await indexer.metric("indexer_cursor_block")) === number);
  expect(await indexer.metric("indexer_leader")).toBe(1);
  expect(await indexer.metric("indexer_head_block")).toBe(number);
  expect(await indexer.metric("indexer_lag_blocks")).toBe(0);
  expect(await indexer.metric("indexer_lag_seconds")).toBe(0);
  expect(await indexer.metric("indexer_watched_wallets")).toBe(1);
  expect(await indexer.metric("indexer_poll_failures_total")).toBe(0);

  proxy.set({ failing: 1 });
  await until("a poll fails", async () => ((await indexer.metric("indexer_poll_failures_total")) ?? 0) > 1);
  const lastPoll = await indexer.metric("indexer_last_poll_timestamp_seconds");
  await until("another fails", async () => ((await indexer.metric("indexer_poll_failures_total")) ?? 0) > 3);
  expect(await indexer.metric("indexer_last_poll_timestamp_seconds")).toBe(lastPoll ?? 0);
  const [row] = await lab.sql`select last_error from cursors where network = ${NETWORK}`;
  expect(row?.lastError).toContain("HTTP 5");

  proxy.heal();
  await mine(lab);
  await settled(lab);
  await until(
    "it polls again",
    async () => ((await indexer.metric("indexer_last_poll_timestamp_seconds")) ?? 0) > (lastPoll ?? 0),
  );
});

test("behavior: a node that reports heads but withholds their logs shows as a growing lag", async () => {
  proxy.set({ emptiedLogs: 1, noReceipts: true, noTransactionReceipts: true });
  const payer = await makePayer(lab);
  const { blockNumber } = await waitForReceipt(
    lab.chain.rpcUrl,
    await pay(lab, payer, merchant.address, 1_000n),
  );
  const number = Number(blockNumber);
  await callRpc(lab.chain.rpcUrl, "anvil_mine", ["0x3", "0x1"]);
  const lagS = () => indexer.metric("indexer_lag_seconds");
  await until("the lag is seen", async () => ((await lagS()) ?? 0) > 0);
  expect(await indexer.metric("indexer_cursor_block")).toBeLessThan(number);
  const before = (await lagS()) ?? 0;
  await callRpc(lab.chain.rpcUrl, "anvil_mine", ["0x28", "0x1"]); // 40 blocks, a second apart
  await until("it grows", async () => ((await lagS()) ?? 0) >= before + 40);
  proxy.heal();
  await settled(lab);
  await until("it is gone", async () => (await lagS()) === 0);
});

test("behavior: an indexer that starts while no node answers is detected by its uptime", async () => {
  await indexer.stop();
  proxy.set({ failing: 1 });
  const startedS = Date.now() / 1000;
  indexer = startIndexer(lab, { urls: [proxy.url] });
  await until("polls fail", async () => ((await indexer.metric("indexer_poll_failures_total")) ?? 0) > 1);
  const polledS = (await indexer.metric("indexer_last_poll_timestamp_seconds")) ?? 0;
  expect(polledS).toBeGreaterThanOrEqual(startedS);
  await until(
    "another poll fails",
    async () => ((await indexer.metric("indexer_poll_failures_total")) ?? 0) > 3,
  );
  expect(await indexer.metric("indexer_last_poll_timestamp_seconds")).toBe(polledS);
  proxy.heal();
  await until(
    "it polls",
    async () => ((await indexer.metric("indexer_last_poll_timestamp_seconds")) ?? 0) > polledS,
  );
});

test("behavior: an indexer that takes over reports the differences known so far, not only the next comparison's", async () => {
  await indexer.stop();
  await lab.sql`
    insert into reconciliations (network, kind, from_block, to_block, checked, differences, repaired, details)
    values (${NETWORK}, 'LOGS', 0, 1, 1, 3, 1, '[]')`;
  indexer = startIndexer(lab, { urls: [proxy.url] });
  await until(
    "they are reported",
    async () => (await indexer.metric("indexer_reconciliation_differences")) === 2,
    BEFORE_COMPARISON_MS,
  );
});

test("a process that no longer leads reports no lag", async () => {
  await indexer.stop();
  expect(await indexer.metric("indexer_leader")).toBe(0);
  for (const name of [
    "head_block",
    "cursor_block",
    "lag_blocks",
    "lag_seconds",
    "last_poll_timestamp_seconds",
  ])
    expect(await indexer.metric(`indexer_${name}`)).toBeUndefined();
});

test("blocks are pruned even where no node reports a final one", async () => {
  const at = (number: number) => `0x${number.toString(16).padStart(64, "0")}`;
  await lab.sql`update cursors set number = 300000, finalized_number = 0 where network = ${NETWORK}`;
  await lab.sql`delete from blocks`;
  for (const number of [99_999, 100_000, 300_000])
    await lab.sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      values (${NETWORK}, ${number}, ${at(number)}, ${at(number - 1)}, now())`;
  await pruneBlocks(lab.sql, NETWORK);
  const rows = await lab.sql<{ number: bigint }[]>`select number from blocks order by number`;
  expect(rows.map((row) => row.number)).toEqual([100_000n, 300_000n]);
  // what is final is forgotten as before
  await lab.sql`update cursors set finalized_number = 299000 where network = ${NETWORK}`;
  await pruneBlocks(lab.sql, NETWORK);
  const left = await lab.sql<{ number: bigint }[]>`select number from blocks order by number`;
  expect(left.map((row) => row.number)).toEqual([300_000n]);
});
