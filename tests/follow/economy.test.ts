/** On a chain whose blooms exclude nothing, blocks without anything of ours are read several at a time, and payments as quickly as before. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { findHighestBlocks, insertBlocks } from "../../db/ledger/blocks.ts";
import { noteLinkWatch } from "../../db/links/link-watches.ts";
import { recheckLogs } from "../../indexer/audit/recheck-logs.ts";
import { applyMissedBlocks } from "../../indexer/settle/apply-missed-blocks.ts";
import { commitQuietBlocks } from "../../indexer/settle/commit-blocks.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { decodeBlock, selectFollowedLogs } from "../../indexer/source/decode-logs.ts";
import { isQuietRange } from "../../indexer/source/quiet-range.ts";
import { readProvenLogs } from "../../indexer/source/verified-block.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import { type CountingProxy, startCountingProxy } from "../support/counting-proxy.ts";
import {
  amounts,
  headOf,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  openTerm,
  pay,
  type RunningIndexer,
  randomAddress,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
const FULL_BLOOM = `0x${"ff".repeat(256)}`;
/** Sooner than the next read that no announcement brings forward. */
const ANNOUNCED_WITHIN_MS = 3_500;
/** A busy machine may need longer now and then, but not each time. */
const ANNOUNCED_TRIES = 5;

const BLOCKS = 12;
/** The fewest at a time. */
const RECHECKED_BLOCKS = 8;

const freshUnits = amounts();
const stranger = randomAddress();
let lab: Lab;
let merchant: Merchant;
let payer: Hex;
let indexer: RunningIndexer | undefined;
let proxy: CountingProxy | undefined;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
});
afterEach(async () => {
  await indexer?.stop();
  await proxy?.stop();
  [indexer, proxy] = [undefined, undefined];
});
afterAll(() => lab.stop());

function fillBloom(_: unknown, answer: unknown): unknown {
  const isBlock = typeof answer === "object" && answer !== null && "logsBloom" in answer;
  return isBlock ? { ...answer, logsBloom: FULL_BLOOM } : answer;
}

/** Resolves when a block holds it. */
async function payInBlock(to: Hex, units: bigint): Promise<void> {
  await waitForReceipt(lab.chain.rpcUrl, await pay(lab, payer, to, units));
}

async function payStrangers(blocks: number): Promise<void> {
  for (let block = 0; block < blocks; block++) await payInBlock(stranger, 5n);
}

async function cursorNumber(): Promise<number> {
  const [row] = await lab.sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
  return Number(row?.number ?? -1);
}

/** Follows through a proxy with full blooms until it reads several blocks at a time. */
async function follow(hasWebSocket: boolean): Promise<CountingProxy> {
  // an open link: every four seconds
  await makeLink(lab, merchant, { units: freshUnits() });
  proxy = startCountingProxy(lab.chain.rpcUrl, { hasWebSocket, edit: fillBloom });
  indexer = startIndexer(lab, { urls: [proxy.url] });
  const counting = proxy;
  await payStrangers(1);
  await until("the newest block is read", async () => (await cursorNumber()) === (await headOf(lab)).number);
  if (hasWebSocket)
    await until("transfers are subscribed to", async () => counting.subscriptions() === "logs");
  return counting;
}

test("many blocks of others cost few log queries, and none is skipped", async () => {
  const counting = await follow(true);
  counting.reset();
  const before = await cursorNumber();
  await payStrangers(BLOCKS);
  await until("the head is read", async () => (await cursorNumber()) === (await headOf(lab)).number);
  expect((await cursorNumber()) - before).toBe(BLOCKS);
  const { eth_getLogs: logs = 0, eth_getBlockReceipts: receipts = 0, head = 0 } = counting.calls();
  // a second reading is among them
  expect(logs).toBeLessThanOrEqual(BLOCKS / 2);
  expect(receipts).toBe(0);
  expect(head).toBeLessThanOrEqual(BLOCKS / 2);
});

test("a payment behind unread blocks is announced, and its link PAID before the next read was due", async () => {
  await follow(true);
  const tookMs: number[] = [];
  while (tookMs.length < ANNOUNCED_TRIES && !tookMs.some((ms) => ms < ANNOUNCED_WITHIN_MS)) {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    await payStrangers(1);
    await until("it has just been read", async () => (await cursorNumber()) === (await headOf(lab)).number);
    await payStrangers(2);
    const startedMs = performance.now();
    await pay(lab, payer, merchant.address, units);
    await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
    tookMs.push(performance.now() - startedMs);
  }
  expect(Math.min(...tookMs)).toBeLessThan(ANNOUNCED_WITHIN_MS);
  await assertInvariants(lab.sql, lab.chain);
});

test("without a websocket a payment among blocks of others is still found", async () => {
  await follow(false);
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await payStrangers(2);
  await pay(lab, payer, merchant.address, units);
  await payStrangers(2);
  await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
  await assertInvariants(lab.sql, lab.chain);
});

test("without a websocket the head is polled every quarter second while a link is being viewed", async () => {
  const counting = await follow(false);
  counting.reset();
  await noteLinkWatch(lab.sql, NETWORK, 60);
  // every four seconds, eight would take longer
  await until("eight polls", async () => (counting.calls().head ?? 0) >= 8, 26_000);
  await lab.sql`delete from link_watches`;
});

test("a reorganisation of skipped blocks reverts no canonical one, and finds what is new on the other branch", async () => {
  await follow(true);
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await payInBlock(merchant.address, units);
  await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
  const { number: paidAt } = await headOf(lab);
  await payStrangers(30);
  await until("the head is read", async () => (await cursorNumber()) === (await headOf(lab)).number);
  const stored = await findHighestBlocks(lab.sql, NETWORK, { to: (await headOf(lab)).number, limit: 100 });
  expect(stored.filter(({ number }) => number > paidAt).length).toBeLessThan(30);

  await callRpc(lab.chain.rpcUrl, "anvil_reorg", [20, []]);
  const second = freshUnits();
  const other = await makeLink(lab, merchant, { units: second });
  await lab.sql`update payment_links set created_block = null where id = ${other}`;
  await pay(lab, payer, merchant.address, second);
  await until("the other is paid", async () => (await linkOf(lab, other)).status === "PAID");
  expect((await linkOf(lab, linkId)).status).toBe("PAID");
  const undone = await lab.sql`
    select 1 from transfers where status = 'ORPHANED' and block_number <= ${paidAt}`;
  expect(undone.length).toBe(0);
  await assertInvariants(lab.sql, lab.chain);
});

test("the second reading continues where few blocks are stored", async () => {
  await follow(true);
  await payStrangers(BLOCKS * 2);
  await until("the head is read", async () => (await cursorNumber()) === (await headOf(lab)).number);
  await indexer?.stop();
  const term = await openTerm(lab);
  const from = term.cursor.number - 2 * RECHECKED_BLOCKS;
  const header = await readHeader(term.chain, from + 2);
  if (!header) throw new Error("the chain is too short");
  await insertBlocks(lab.sql, NETWORK, [header]);
  await lab.sql`
    delete from blocks where number > ${header.number} and number < ${from + RECHECKED_BLOCKS + 2}`;
  await lab.sql`update cursors set rechecked_number = ${from - 1} where network = ${NETWORK}`;
  term.isCatchingUp = true;
  expect(await recheckLogs(term, { blocks: RECHECKED_BLOCKS })).toBe(false);
  term.isCatchingUp = false;
  expect(await recheckLogs(term, { blocks: RECHECKED_BLOCKS })).toBe(true);
  const [row] = await lab.sql`select rechecked_number from cursors where network = ${NETWORK}`;
  expect(row).toEqual({ recheckedNumber: BigInt(from + RECHECKED_BLOCKS - 1) });
  term.close();
});

test("a transfer in a skipped block is not recorded later from another branch", async () => {
  await follow(true);
  await payStrangers(BLOCKS);
  await until("the head is read", async () => (await cursorNumber()) === (await headOf(lab)).number);
  await indexer?.stop();
  const term = await openTerm(lab);
  const { number: head } = term.cursor;
  const stored = await findHighestBlocks(lab.sql, NETWORK, { to: head, limit: BLOCKS });
  // a poll may have come at any of the blocks, and has stored that one
  const isStored = (number: number) => stored.some((one) => one.number === number);
  const passedOver = [head - 2, head - 3, head - 4].find((number) => !isStored(number));
  if (passedOver === undefined) throw new Error("no block was passed over");
  const block = await readHeader(term.chain, passedOver);
  if (!block) throw new Error("the chain is too short");
  const logs = selectFollowedLogs(await readProvenLogs(term.chain, block), USDC);
  const isStranger = (address: Hex) => address === stranger;
  const content = decodeBlock(block, logs, isStranger);
  expect(content.transfers.length).toBe(1);
  await callRpc(lab.chain.rpcUrl, "anvil_reorg", [BLOCKS / 2, []]);
  await expect(applyMissedBlocks(term, [content], isStranger)).rejects.toThrow("does not follow");
  term.close();
});

test("a transfer recorded late becomes confirmed although the block that confirms it was skipped meanwhile", async () => {
  const opened = await openTerm(lab);
  const term = { ...opened, confirmations: 3 };
  await payInBlock(merchant.address, freshUnits());
  const block = await readHeader(term.chain, "latest");
  if (!block) throw new Error("there is no block");
  await commitQuietBlocks(term, block, performance.now());
  const logs = selectFollowedLogs(await readProvenLogs(term.chain, block), USDC);
  const isMerchant = (address: Hex) => address === merchant.address;
  expect(await applyMissedBlocks(term, [decodeBlock(block, logs, isMerchant)], isMerchant)).toBe(1);
  await mine(lab, 5);
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("there is no block");
  await commitQuietBlocks(term, head, performance.now());
  const [transfer] = await lab.sql`select status from transfers where block_number = ${block.number}`;
  expect(transfer).toEqual({ status: "CONFIRMED" });
  opened.close();
});

/** Whether the last `blocks` blocks are quiet, as a node says whose log answers are edited. */
async function asksQuiet(
  blocks: number,
  edit: (logs: Record<string, unknown>[]) => unknown,
): Promise<boolean> {
  const node: FaultProxy = startFaultProxy(lab.chain.rpcUrl);
  node.fault = ([call]) =>
    call?.method === "eth_getLogs"
      ? {
          kind: "edit",
          edit: (answer) => ({
            ...(answer as object),
            result: edit((answer as { result: Record<string, unknown>[] }).result),
          }),
        }
      : undefined;
  const chain = openChain({ network: NETWORK, urls: [node.url], timeoutMs: 10_000 });
  try {
    const head = await readHeader(chain, "latest");
    const cursor = head && (await readHeader(chain, head.number - blocks));
    if (!head || !cursor) throw new Error("the chain is too short");
    return await isQuietRange(
      chain,
      { cursor, head },
      {
        ...{ size: 1, bits: () => [], wantsAuthorizations: false },
        isWatched: (address) => address === merchant.address,
      },
    );
  } finally {
    chain.close();
    await node.stop();
  }
}

test("blocks are quiet only when one response covers each of them, from the cursor's to the head's", async () => {
  await payStrangers(6);
  const { number: head } = await headOf(lab);
  const at = (log: Record<string, unknown>) => Number(log.blockNumber);
  const otherHash = `0x${"ab".repeat(32)}`;
  const moved = (number: number) => (logs: Record<string, unknown>[]) =>
    logs.map((log) => (at(log) === number ? { ...log, blockHash: otherHash } : log));
  expect(await asksQuiet(4, (logs) => logs)).toBe(true);
  expect(await asksQuiet(4, moved(head))).toBe(false);
  expect(await asksQuiet(4, moved(head - 4))).toBe(false);
  expect(await asksQuiet(4, (logs) => logs.filter((log) => at(log) < head))).toBe(false);
  expect(await asksQuiet(4, (logs) => logs.filter((log) => at(log) !== head - 2))).toBe(false);
  expect(await asksQuiet(4, () => [])).toBe(false);
});

test("blocks are not quiet with a transfer of a wallet or with omitted logs; the cursor's own block is already read", async () => {
  await payInBlock(merchant.address, 7n);
  await payStrangers(3);
  expect(await asksQuiet(3, (logs) => logs)).toBe(true);
  expect(await asksQuiet(4, (logs) => logs)).toBe(false);
  await mine(lab);
  await payStrangers(1);
  expect(await asksQuiet(2, (logs) => logs)).toBe(false);
});
