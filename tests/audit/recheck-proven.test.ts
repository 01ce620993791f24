/** Blocks that are read by their proofs after an answer left something out. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openChain } from "../../core/rpc/chain-client.ts";
import { recheckLogs } from "../../indexer/audit/recheck-logs.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { startScriptedNode, transferLog } from "../source/scripted-node.ts";
import { type BooksLab, NETWORK, openBooks } from "../support/ledger-lab.ts";
import { randomAddress } from "../support/seed.ts";

const HEAD = 100;
const READ_TO = 80;
const BLOCKS = 8;

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

test("doubted blocks are read one after the other, so that full ones do not compete with each other", async () => {
  const blocks = Object.fromEntries(
    Array.from({ length: HEAD }, (_, index) => [index + 1, [transferLog(randomAddress(), randomAddress())]]),
  );
  const node = startScriptedNode(HEAD, blocks);
  const chain = openChain({ network: NETWORK, urls: [node.url], timeoutMs: 5_000 });
  await lab.sql`update cursors set rechecked_number = ${READ_TO} where network = ${NETWORK}`;
  const term = { ...lab.term, chain, watched: new Set() } as unknown as Term;
  expect(await recheckLogs(term, { blocks: BLOCKS, isDoubted: true })).toBe(true);
  const asked = node.calls.map(({ method }) => method);
  const ofOne = ["eth_getBlockByNumber", "eth_getBlockReceipts"];
  expect(asked).toEqual(Array.from({ length: BLOCKS }, () => ofOne).flat());
  chain.close();
  await node.stop();
});
