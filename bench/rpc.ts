/**
 * The cost of following the head at a provider: calls and compute units per hour (Alchemy's list), with the header blooms of a full chain and
 * a block every two seconds with a hundred transfers of others. BENCH_RPC_SECONDS sets how long each case is counted (default 60), starting
 * when every wallet has been compared with the chain: unchanged ones are compared once a day, and those calls have their own column.
 * BENCH_RPC_CASES selects cases by parts of their names, separated by semicolons.
 */
import { openDatabase, type Sql } from "../db/postgres/client.ts";
import { callRpc } from "../local/chain/rpc.ts";
import { startCountingProxy } from "../tests/support/counting-proxy.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { type BusyChain, receiver, startBusyChain } from "./busy-chain.ts";
import { NETWORK, seedWallets, startIndexer, waitForCursor } from "./indexer-process.ts";
import { describeMachine, printTable, type Row } from "./report.ts";

const SECONDS = Number(process.env.BENCH_RPC_SECONDS ?? 60);
const BLOCK_MS = 2_000;
const TRANSFERS_A_BLOCK = 100;
/** Receivers of the transfers; the first one may be a wallet of ours. */
const RECEIVERS = 1_000;
const HOURS_A_MONTH = 730;
const HOURS_A_DAY = 24;
const HOUR_S = 3_600;
const COMPARED_WITHIN_MS = 300_000;
const CHOSEN = process.env.BENCH_RPC_CASES?.split(";");

/** alchemy.com/docs/reference/compute-unit-costs; a websocket is billed by the byte. */
const UNITS: Readonly<Record<string, number>> = {
  ...{
    head: 20,
    eth_getBlockByNumber: 20,
    eth_getBlockByHash: 20,
    eth_getBlockReceipts: 20,
    eth_getLogs: 60,
  },
  ...{ eth_call: 26, eth_chainId: 0, eth_blockNumber: 10, eth_getTransactionByHash: 17 },
  ...{ eth_getTransactionReceipt: 15 },
};
const UNITS_A_SOCKET_BYTE = 0.04;
/** Blooms as on Base mainnet, where "may contain" rules nothing out. */
const FULL_BLOOM = `0x${"ff".repeat(256)}`;

type Case = { name: string; wallets: number; isPaid: boolean; hasLink: boolean; hasWebSocket: boolean };

const CASES: readonly Case[] = [
  { name: "idle, websocket", wallets: 1, isPaid: false, hasLink: false, hasWebSocket: true },
  { name: "idle, polling", wallets: 1, isPaid: false, hasLink: false, hasWebSocket: false },
  { name: "open link, websocket", wallets: 1, isPaid: false, hasLink: true, hasWebSocket: true },
  { name: "open link, polling", wallets: 1, isPaid: false, hasLink: true, hasWebSocket: false },
  {
    name: "busy: a payment in every block, websocket",
    wallets: 1,
    isPaid: true,
    hasLink: true,
    hasWebSocket: true,
  },
  {
    name: "idle, 10,000 wallets, websocket",
    wallets: 10_000,
    isPaid: false,
    hasLink: false,
    hasWebSocket: true,
  },
];

export async function run(): Promise<void> {
  console.log(`${describeMachine()}; ${SECONDS} s a case, a block every ${BLOCK_MS / 1_000} s\n`);
  const rows: Row[] = [];
  for (const one of CASES.filter(({ name }) => CHOSEN?.some((part) => name.includes(part)) ?? true)) {
    const row = await measure(one);
    console.log(JSON.stringify({ bench: "rpc", ...row }));
    rows.push(row);
  }
  printTable(rows);
}

async function measure(one: Case): Promise<Row> {
  const receivers = one.isPaid ? TRANSFERS_A_BLOCK : RECEIVERS;
  const chain = await startBusyChain({ blocks: 1, transfersABlock: TRANSFERS_A_BLOCK, receivers });
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 2 });
  const proxy = startCountingProxy(chain.rpcUrl, { hasWebSocket: one.hasWebSocket, edit: fillBloom });
  // wallets that are never paid have addresses that no receiver has
  await seedWallets(sql, {
    receivers: one.isPaid ? 1 : 0,
    others: one.isPaid ? one.wallets - 1 : one.wallets,
  });
  if (one.hasLink) await seedLink(sql, one);
  const indexer = await startIndexer(db.url, proxy.url);
  try {
    await mineFor(chain, 3);
    await waitForCursor(sql, await readHead(chain));
    await mineUntilCompared(chain, sql);
    const callsOfTheRound = proxy.calls().eth_call ?? 0;
    proxy.reset();
    const startedMs = performance.now();
    await mineFor(chain, SECONDS);
    await waitForCursor(sql, await readHead(chain));
    const hours = (performance.now() - startedMs) / 1_000 / HOUR_S;
    return toRow(one, { calls: proxy.calls(), socketBytes: proxy.socketBytes(), hours, callsOfTheRound });
  } finally {
    await indexer.stop();
    await proxy.stop();
    await sql.end({ timeout: 5 });
    await Promise.all([db.drop(), chain.stop()]);
  }
}

type Counted = {
  calls: Readonly<Record<string, number>>;
  socketBytes: number;
  hours: number;
  /** `eth_call`s until every wallet had been compared once. */
  callsOfTheRound: number;
};

function toRow({ name }: Case, { calls, socketBytes, hours, callsOfTheRound }: Counted): Row {
  const anHour = (count: number) => Math.round(count / hours);
  const count = (method: string) => anHour(calls[method] ?? 0);
  const unitsAnHour = Object.keys(calls).reduce(
    (sum, method) => sum + count(method) * (UNITS[method] ?? 0),
    0,
  );
  const socketUnits = anHour(socketBytes) * UNITS_A_SOCKET_BYTE;
  const ofTheRound = (callsOfTheRound * (UNITS.eth_call ?? 0)) / HOURS_A_DAY;
  const aMonth = (units: number) => Math.round(((units + ofTheRound) * HOURS_A_MONTH) / 1e5) / 10;
  return {
    case: name,
    "heads/h": count("head"),
    "blocks/h": count("eth_getBlockByNumber") + count("eth_getBlockByHash"),
    "logs/h": count("eth_getLogs"),
    "receipts/h": count("eth_getBlockReceipts"),
    "eth_call/h": count("eth_call"),
    "eth_call a day for balances": callsOfTheRound,
    "CU/h": unitsAnHour,
    "CU/h of the socket": Math.round(socketUnits),
    "M CU/month": aMonth(unitsAnHour),
    "with the socket": aMonth(unitsAnHour + socketUnits),
  };
}

function fillBloom(_: unknown, answer: unknown): unknown {
  const isBlock =
    typeof answer === "object" && answer !== null && "logsBloom" in answer && "parentHash" in answer;
  return isBlock ? { ...answer, logsBloom: FULL_BLOOM } : answer;
}

async function mineFor(chain: BusyChain, seconds: number): Promise<void> {
  const endMs = performance.now() + seconds * 1_000;
  for (let dueMs = performance.now(); dueMs < endMs; dueMs += BLOCK_MS) {
    await Bun.sleep(Math.max(0, dueMs - performance.now()));
    await chain.mine(1);
  }
}

/** Balances are compared once a minute, at a final block. */
async function mineUntilCompared(chain: BusyChain, sql: Sql): Promise<void> {
  const deadlineMs = performance.now() + COMPARED_WITHIN_MS;
  for (;;) {
    const [row] = await sql<{ left: number }[]>`
      select count(*)::int as left
      from wallets
      where reconciled_at is null`;
    if (row?.left === 0) return;
    if (performance.now() > deadlineMs) throw new Error(`${row?.left} wallets were not compared`);
    await chain.mine(1);
    await Bun.sleep(BLOCK_MS);
  }
}

async function readHead(chain: BusyChain): Promise<number> {
  return Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
}

async function seedLink(sql: Sql, { isPaid }: Case): Promise<void> {
  await sql`
    insert into payment_links (id, user_id, network, recipient, amount_units, description, expires_at)
    select 'link_bench0000000000000000', user_id, ${NETWORK}, address, 123456, 'Bench', now() + interval '1 day'
    from wallets
    where ${isPaid} = (address = ${receiver(0)})
    limit 1`;
}
