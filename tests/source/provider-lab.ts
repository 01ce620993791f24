/** One chain for every row of the provider matrix; each run has a ledger, an indexer and a proxy of its own. */
import { encodeFunctionData, parseAbi } from "viem";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
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
import { type ChainTransfer, readTransfers } from "../support/invariants.ts";
import { createTestDatabase } from "../support/postgres.ts";
import { startProviderProxy } from "../support/provider-proxy.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import type { ProviderRow, ProviderRun } from "./provider-rows.ts";

const CAUGHT_UP_WITHIN_MS = 90_000;

export type ProviderLab = {
  /** Catches up from the first block, and reads one block more. Throws when a transfer is missing or there twice. */
  runRow: (row: ProviderRow) => Promise<void>;
  stop: () => Promise<void>;
};

export async function openProviderLab(blocks: number): Promise<ProviderLab> {
  const home = await openLab();
  const wallets = [randomAddress(), randomAddress()] as const;
  const payer = await makePayer(home);
  await fillChain(home, { blocks, payer, wallets });
  const readExpected = openExpectation(home, wallets);

  async function runRow({ title, limits, runs, isRefused }: ProviderRow): Promise<void> {
    for (const run of runs) {
      const refusals = await catchUp(limits, run);
      if (isRefused && refusals === 0) throw new Error(`nothing was refused: ${title}`);
    }
  }

  async function catchUp(limits: ProviderRow["limits"], { others, finalized }: ProviderRun): Promise<number> {
    const lab = await openLedger(home, wallets, others);
    const proxy = startProviderProxy(home.chain.rpcUrl, { ...limits, ...(finalized ? { finalized } : {}) });
    const indexer = startIndexer(lab, { urls: [proxy.url] });
    try {
      await untilRead(lab, (await headOf(home)).number);
      // a payer of its own: rows run side by side, and two transactions of one account would race for its next nonce
      const hash = await pay(home, await makePayer(home), wallets[0], 4_000n);
      await waitForReceipt(home.chain.rpcUrl, hash);
      await untilRead(lab, await blockOf(home, hash));
      const { number, places, rows } = await readLedger(lab);
      assertSame(places, await readExpected(number));
      if (rows !== places.length) throw new Error(`${rows} rows of history, ${places.length} transfers`);
      return proxy.refusals();
    } finally {
      await indexer.stop();
      await proxy.stop();
      await lab.stop();
    }
  }

  return { runRow, stop: () => home.stop() };
}

/** By twenty blocks: a payment alone, four transfers in one block, a transfer of others, full blocks one after the other, empty ones. */
async function fillChain(
  lab: Lab,
  { blocks, payer, wallets: [wallet, other] }: { blocks: number; payer: Hex; wallets: readonly [Hex, Hex] },
): Promise<void> {
  const abi = parseAbi([
    "function approve(address,uint256)",
    "function transferFrom(address,address,uint256)",
  ]);
  const approve = encodeFunctionData({
    ...{ abi, functionName: "approve" },
    args: [CONTRACTS.multicall3, 2n ** 200n],
  });
  await send(lab, payer, USDC, approve);
  while ((await headOf(lab)).number < blocks) {
    await pay(lab, payer, wallet, 1_000n);
    await mine(lab, 5);
    const calls = [wallet, other, randomAddress(), wallet].map((to) => ({
      target: USDC,
      callData: encodeFunctionData({ abi, functionName: "transferFrom", args: [payer, to, 2_000n] }),
    }));
    for (let count = 0; count < 3; count++) await sendBatch(lab, payer, calls);
    await pay(lab, payer, randomAddress(), 3_000n);
    await mine(lab, 10);
  }
}

async function openLedger(home: Lab, wallets: readonly Hex[], others: number): Promise<Lab> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
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

async function untilRead(lab: Lab, number: number): Promise<void> {
  await until(
    `block ${number} is read`,
    async () => {
      const [row] = await lab.sql<
        { number: bigint }[]
      >`select number from cursors where network = ${NETWORK}`;
      return row !== undefined && Number(row.number) >= number;
    },
    CAUGHT_UP_WITHIN_MS,
  );
}

async function blockOf(lab: Lab, txHash: Hex): Promise<number> {
  const receipt = (await callRpc(lab.chain.rpcUrl, "eth_getTransactionReceipt", [txHash])) as {
    blockNumber: Hex;
  };
  return Number(receipt.blockNumber);
}

/** Of one moment: other rows' payments go on. */
async function readLedger({ sql }: Lab): Promise<{ number: number; places: string[]; rows: number }> {
  const [row] = await sql<{ number: bigint; places: string[]; rows: number }[]>`
    select
      (select number from cursors where network = ${NETWORK}),
      array(select hex_of(block_hash) || ':' || log_index from transfers where status <> 'ORPHANED') as places,
      (select count(*)::int from transactions) as rows`;
  if (!row) throw new Error("there is no ledger");
  return { number: Number(row.number), places: row.places.sort(), rows: row.rows };
}

/** The chain's transfers of the wallets up to a block; each block is read once. */
function openExpectation(home: Lab, wallets: readonly string[]): (upTo: number) => Promise<string[]> {
  const known: ChainTransfer[] = [];
  let reading: Promise<number> = Promise.resolve(-1);
  const readUpTo = async (last: number, to: number) => {
    if (to <= last) return last;
    known.push(...(await readTransfers(home.chain.rpcUrl, NETWORK, { from: last + 1, to })));
    return to;
  };
  return async (upTo) => {
    reading = reading.then((last) => readUpTo(last, upTo));
    await reading;
    const ours = known.filter(
      ({ from, to, blockNumber }) => blockNumber <= upTo && (wallets.includes(from) || wallets.includes(to)),
    );
    return ours.map(({ blockHash, logIndex }) => `${blockHash}:${logIndex}`).sort();
  };
}

function assertSame(booked: readonly string[], expected: readonly string[]): void {
  const [known, there] = [new Set(booked), new Set(expected)];
  const missing = expected.filter((place) => !known.has(place)).length;
  const surplus = booked.filter((place) => !there.has(place)).length + booked.length - known.size;
  if (missing + surplus > 0 || expected.length === 0)
    throw new Error(`of ${expected.length} transfers ${missing} are missing, ${surplus} too many are booked`);
}
