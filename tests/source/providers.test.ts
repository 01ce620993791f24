/** The limits of public JSON-RPC providers, each in its own words: a reader 1,000 blocks behind gets to the head, without a gap or a double. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeFunctionData, parseAbi } from "viem";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import {
  headOf,
  type Lab,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  pay,
  randomAddress,
  send,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { sendBatch } from "../support/indexer-lab-payments.ts";
import { readTransfers } from "../support/invariants.ts";
import { createTestDatabase } from "../support/postgres.ts";
import { type ProviderLimits, type Refusal, startProviderProxy } from "../support/provider-proxy.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
const BLOCKS = 1_000;
const CAUGHT_UP_WITHIN_MS = 60_000;
/** More than are asked for by their addresses: every block is read whole then. */
const MANY_WALLETS = 1_001;

let home: Lab;
let payer: Hex;
const wallets = [randomAddress(), randomAddress()] as const;
beforeAll(async () => {
  home = await openLab();
  payer = await makePayer(home);
  const approval = parseAbi(["function approve(address,uint256)"]);
  await send(
    home,
    payer,
    USDC,
    encodeFunctionData({ abi: approval, args: [CONTRACTS.multicall3, 2n ** 200n] }),
  );
  while ((await headOf(home)).number < BLOCKS) await makeBlocks();
});
afterAll(() => home.stop());

/** Twenty blocks: a payment alone, four transfers in one block, a transfer of others, a run of full blocks, and empty ones. */
async function makeBlocks(): Promise<void> {
  const [wallet, other] = wallets;
  await pay(home, payer, wallet, 1_000n);
  await mine(home, 5);
  const abi = parseAbi(["function transferFrom(address,address,uint256)"]);
  const calls = [wallet, other, randomAddress(), wallet].map((to) => ({
    target: USDC,
    callData: encodeFunctionData({ abi, args: [payer, to, 2_000n] }),
  }));
  for (let count = 0; count < 3; count++) await sendBatch(home, payer, calls);
  await pay(home, payer, randomAddress(), 3_000n);
  await mine(home, 10);
}

/** A ledger of its own on the one chain. */
async function openLedger(others: number): Promise<Lab> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "test", maxConnections: 3 });
  const lab = { ...home, db, sql };
  for (const wallet of wallets) await makeMerchant(lab, wallet);
  await makeManyWallets(lab, others);
  return {
    ...lab,
    async stop() {
      await sql.end({ timeout: 5 });
      await db.drop();
    },
  };
}

async function readExpected(): Promise<string[]> {
  const transfers = await readTransfers(home.chain.rpcUrl, NETWORK);
  const ours = transfers.filter(({ from, to }) =>
    (wallets as readonly string[]).some((one) => one === from || one === to),
  );
  return ours.map(({ blockHash, logIndex }) => `${blockHash}:${logIndex}`).sort();
}

async function readBooked({ sql }: Lab): Promise<string[]> {
  const rows = await sql<{ place: string }[]>`
    select block_hash || ':' || log_index as place
    from transfers
    where status <> 'ORPHANED'`;
  return rows.map(({ place }) => place).sort();
}

async function isAtHead(lab: Lab): Promise<boolean> {
  const [row] = await lab.sql<{ hash: Hex }[]>`select hash from cursors where network = ${NETWORK}`;
  return row?.hash === (await headOf(lab)).hash;
}

/** From the first block to the head, and one block on. Returns what the proxy was asked. */
async function catchUp(
  limits: ProviderLimits,
  others: number,
): Promise<{ requests: number; refusals: number }> {
  const lab = await openLedger(others);
  const proxy = startProviderProxy(home.chain.rpcUrl, limits);
  const indexer = startIndexer(lab, { urls: [proxy.url] });
  try {
    await until("it has caught up", () => isAtHead(lab), CAUGHT_UP_WITHIN_MS);
    await waitForReceipt(home.chain.rpcUrl, await pay(home, payer, wallets[0], 4_000n));
    await until("it has read one more block", () => isAtHead(lab), CAUGHT_UP_WITHIN_MS);
    const [expected, booked] = [await readExpected(), await readBooked(lab)];
    expect(expected.length).toBeGreaterThan(BLOCKS / 5);
    expect(booked).toEqual(expected);
    const [history] = await lab.sql`select count(*)::int as rows from transactions`;
    expect(history).toEqual({ rows: expected.length });
    return { requests: proxy.requests(), refusals: proxy.refusals() };
  } finally {
    await indexer.stop();
    await proxy.stop();
    await lab.stop();
  }
}

const refusal = (code: number, message: string, rest: Omit<Refusal, "code" | "message"> = {}): Refusal => ({
  ...{ code, message, ...rest },
});

describe("calls in a batch", () => {
  const CAPS: [number, Refusal][] = [
    [10, refusal(-32014, "maximum 10 calls in 1 batch")],
    [10, refusal(-32600, "batch too large", { status: 400 })],
    [10, { message: "Request Entity Too Large", status: 413, form: "text" }],
    [10, { message: "upstream failure", status: 500, form: "text" }],
    [10, refusal(-32005, "too many requests in the batch", { form: "each" })],
    [3, refusal(31, "Batch of more than 3 requests are not allowed on free tier", { status: 500 })],
    [3, refusal(-32603, "internal error", { form: "each" })],
    [1, refusal(-32600, "batch requests are not supported")],
    [1, { message: "expected an object", status: 400, form: "text" }],
  ];
  test.each(CAPS)("at most %d: %j, catches up", async (batchMax, refuseBatch) => {
    const { refusals } = await catchUp({ batchMax, refuseBatch, finalized: "missing" }, 0);
    expect(refusals).toBeGreaterThan(0);
  });
});

describe("blocks in a log query", () => {
  const CAPS: [number, Refusal][] = [
    [5, refusal(-32614, "eth_getLogs is limited to a 5 range")],
    [
      10,
      refusal(
        -32600,
        "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range",
      ),
    ],
    [100, refusal(-32005, "Maximum allowed number of requested blocks is 100")],
    [100, refusal(-32602, "query exceeds max block range 100")],
    [500, refusal(-32000, "exceed maximum block range: 500")],
    [500, refusal(-32603, "request failed or timed out")],
    [800, refusal(-32000, "block range is too wide")],
    [0, refusal(-32601, "the method eth_getLogs takes a block hash only")],
  ];
  test.each(CAPS)("at most %d: %j, catches up", async (rangeMax, refuseRange) => {
    await catchUp({ rangeMax, refuseRange, finalized: "missing" }, 0);
    await catchUp({ rangeMax, refuseRange }, 0);
  });

  const LARGE: [number, Refusal][] = [
    [1_000, refusal(-32000, "range is too large, max is 1k blocks")],
    [10_000, refusal(-32614, "eth_getLogs is limited to a 10,000 blocks range")],
    [10_000, refusal(-32000, "ranges over 10000 blocks are not supported")],
    [10_000, refusal(-32000, "eth_getLogs is limited to 0 - 10000 blocks range")],
  ];
  test.each(LARGE)("at most %d: %j, catches up", async (rangeMax, refuseRange) => {
    await catchUp({ rangeMax, refuseRange }, 0);
  });
});

describe("results of a log query", () => {
  const CAPS: [number, Refusal][] = [
    [3, refusal(-32005, "query returned more than 3 results")],
    [3, refusal(-32602, "Log response size exceeded")],
    [10, refusal(-32005, "query returned more than 10 results. Try with this block range [0x1, 0x2].")],
    [100, refusal(-32000, "logs matched by query exceeds limit of 100")],
  ];
  test.each(CAPS)("at most %d: %j, catches up", async (resultsMax, refuseResults) => {
    await catchUp({ resultsMax, refuseResults }, 0);
    await catchUp({ resultsMax, refuseResults, finalized: "null" }, MANY_WALLETS);
  });
});

describe("what a node does not have", () => {
  const LIMITS: [string, ProviderLimits][] = [
    ["an archive of states", { stateBlocks: 32 }],
    ["the tag finalized", { finalized: "missing" }],
    ["a finalized block", { finalized: "null" }],
    ["receipts by block", { missingMethods: ["eth_getBlockReceipts"] }],
    ["block announcements on its websocket", { socket: "silent" }],
    ["capacity for every tenth request", { limitedEvery: 10, retryAfterS: 1 }],
  ];
  test.each(LIMITS)("%s: catches up", async (_, limits) => {
    await catchUp(limits, 0);
  });

  test("receipts by block, and logs of a full block: catches up by the receipts of its transactions", async () => {
    const refuseResults = refusal(-32005, "query returned more than 3 results");
    await catchUp({ missingMethods: ["eth_getBlockReceipts"], resultsMax: 3, refuseResults }, 0);
  });

  test("anything beyond the smallest caps, all at once: catches up", async () => {
    await catchUp(
      {
        ...{ batchMax: 3, refuseBatch: refusal(31, "Batch of more than 3 requests"), finalized: "missing" },
        ...{ rangeMax: 5, refuseRange: refusal(-32614, "eth_getLogs is limited to a 5 range") },
        ...{ resultsMax: 3, refuseResults: refusal(-32005, "query returned more than 3 results") },
        ...{ stateBlocks: 32, socket: "silent" },
      },
      0,
    );
  });
});
