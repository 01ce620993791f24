/** Which transactions are read for a link's tag: of transfers that a tag could explain, and no others. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { openLog } from "../../core/runtime/log.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import { withTags } from "../../indexer/source/read-tags.ts";
import { accept, type BooksLab, makeTransfer, openBooks, randomHash, UNITS } from "../support/ledger-lab.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { NETWORK, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";
import { type RpcTransaction, SENDER, signCall } from "./signed-transaction.ts";

setDefaultTimeout(120_000);
/** The books have read up to 100. */
const BLOCK = 101;
const SKEW_S = 15 * 60;

let books: BooksLab;
let linkId: string;
/** A wallet without links. */
let other: SeededMerchant;
beforeAll(async () => {
  books = await openBooks({ readTo: BLOCK - 1 });
  linkId = await seedLink(books.sql, books.merchant);
  other = await seedMerchant(books.sql);
});
afterAll(() => books?.stop());

let node: ScriptedNode | undefined;
afterEach(() => node?.stop());

let nonce = 0;
const payWithTag = (to: Hex) => signCall(nonce++, `${encodeTransfer(to, UNITS)}${linkTag(linkId).slice(2)}`);

/** Tags of these transfers, whose transactions are answered as given; and how many transactions were asked for. */
async function read(
  transfers: readonly SeenTransfer[],
  answer: RpcTransaction | null = null,
  isWatched: (address: Hex) => boolean = () => true,
) {
  const running = startScriptedNode(1, {});
  node = running;
  running.answer = ({ method }) =>
    method === "eth_getTransactionByHash"
      ? { result: answer }
      : method === "eth_chainId"
        ? undefined
        : { result: null };
  const chain = openChain({ network: NETWORK, urls: [running.url], timeoutMs: 10_000 });
  const empty = { spent: [], operations: [], accountLogs: [] };
  const blocks = transfers.map((one) => ({ ...empty, block: one.block, transfers: [one], logCount: 1 }));
  try {
    const term = { sql: books.sql, chain, log: openLog("test", "silent"), network: NETWORK } as const;
    const found = await withTags(term, blocks, isWatched);
    const tags = found.flatMap((block) => block.transfers.map(({ tag }) => tag));
    return { tags, asked: running.count("eth_getTransactionByHash") };
  } finally {
    chain.close();
    await running.stop();
  }
}

/** Asked for, whatever is answered: no node has it. */
const isAskedFor = (transfer: SeenTransfer) =>
  read([transfer]).then(
    ({ asked }) => asked > 0,
    (error: Error) => error.message === `no node has transaction ${transfer.txHash}`,
  );

test("a transfer to a wallet with links gets the tag of its transaction", async () => {
  const paid = await payWithTag(books.merchant.address);
  const transfer = makeTransfer(books, BLOCK, { from: SENDER, txHash: paid.hash });
  expect(await read([transfer], paid)).toEqual({ tags: [linkTag(linkId)], asked: 1 });
  // a transaction that does not make the hash says nothing
  const lie = {
    ...paid,
    input: `${paid.input.slice(0, -2)}${paid.input.endsWith("ff") ? "00" : "ff"}` as Hex,
  };
  expect((await read([transfer], lie)).tags).toEqual([undefined]);
  expect(await read([transfer], paid, (address) => address === other.address)).toEqual({
    ...{ tags: [undefined], asked: 0 },
  });
});

test("a transfer to a wallet without links carries none of its tags", async () => {
  expect(await isAskedFor(makeTransfer(books, BLOCK, { to: other.address }))).toBe(false);
  expect(await isAskedFor(makeTransfer(books, BLOCK))).toBe(true);
});

test("a transfer a quarter of an hour older than the first link carries none either", async () => {
  const isAskedForAt = async (afterBoundaryMs: number) => {
    const wallet = await seedMerchant(books.sql);
    const id = await seedLink(books.sql, wallet);
    const transfer = makeTransfer(books, BLOCK, { to: wallet.address });
    const madeAt = new Date((transfer.block.timeS + SKEW_S) * 1_000 + afterBoundaryMs);
    await books.sql`
      update payment_links set created_at = ${madeAt}, expires_at = now() + interval '1 day' where id = ${id}`;
    return isAskedFor(transfer);
  };
  expect(await isAskedForAt(0)).toBe(true);
  expect(await isAskedForAt(1)).toBe(false);
});

test("a wallet's first link is known from the next transfer on", async () => {
  const wallet = await seedMerchant(books.sql);
  const transfer = makeTransfer(books, BLOCK, { to: wallet.address });
  expect(await isAskedFor(transfer)).toBe(false);
  await seedLink(books.sql, wallet);
  expect(await isAskedFor(transfer)).toBe(true);
  // and is not looked for again
  await books.sql`update payment_links set created_at = created_at + interval '1 day', expires_at = now() + interval '2 days' where user_id = ${wallet.userId}`;
  expect(await isAskedFor(transfer)).toBe(true);
});

test("a transfer that an accepted payment explains needs no tag; one that differs from it may have one", async () => {
  const payment = await accept(books, linkId);
  if (!payment) throw new Error("the link does not accept it");
  const made = (change: Partial<SeenTransfer> = {}): SeenTransfer => ({
    ...makeTransfer(books, BLOCK, { payment }),
    ...change,
  });
  expect(await isAskedFor(made())).toBe(false);
  expect(await isAskedFor(made({ amountUnits: UNITS + 1n }))).toBe(true);
  expect(await isAskedFor(made({ authorizationNonce: randomHash() }))).toBe(true);
  expect(await isAskedFor(made({ authorizationNonce: undefined }))).toBe(true);
  const neighbour = await seedMerchant(books.sql);
  await seedLink(books.sql, neighbour);
  expect(await isAskedFor(made({ to: neighbour.address }))).toBe(true);
  // accepted after it: its signature was public by then
  const { block } = made();
  expect(await isAskedFor(made({ block: { ...block, timeS: block.timeS - 60 } }))).toBe(true);
});
