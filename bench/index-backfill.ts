/** How fast the indexer reads a busy chain from its first block, beside the least that any indexer must do with the same node and database. */
import { readFileSync } from "node:fs";
import { toQuantity } from "../core/chain/rpc-answers.ts";
import { decodeTransferLog, TRANSFER_TOPIC } from "../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../core/domain/networks.ts";
import { openDatabase, type Sql } from "../db/client.ts";
import { callRpc } from "../local/rpc.ts";
import { startServiceProcess } from "../local/service-process.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { type BusyChain, receiver } from "./busy-chain.ts";
import type { Row } from "./report.ts";

const NETWORK = "base-sepolia";
const USDC = NETWORKS[NETWORK].usdc.address;
const RAW_BLOCKS = 50;
const LOOK_MS = 20;
const TIMEOUT_MS = 600_000;
const TICKS_A_SECOND = 100;

/** `receivers` of the chain's receivers are wallets of ours, `others` more are never paid. */
export type Wallets = { name: string; receivers: number; others: number };

export async function measureBackfill(chain: BusyChain, wallets: Wallets): Promise<Row> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 1 });
  try {
    await seedWallets(sql, wallets);
    const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
    const startedMs = performance.now();
    const indexer = await startServiceProcess("indexer", indexerEnv(db.url, chain.rpcUrl), () => {});
    await waitForCursor(sql, head);
    const seconds = (performance.now() - startedMs) / 1000;
    const usage = readUsage(indexer.pid);
    await indexer.stop();
    const [stored] = await sql<{ n: bigint }[]>`select count(*) as n from transfers`;
    return {
      bench: "index",
      what: wallets.name,
      wallets: wallets.receivers + wallets.others,
      events: chain.transfers,
      stored: Number(stored?.n ?? 0n),
      seconds: round(seconds),
      "events/s": Math.round(chain.transfers / seconds),
      "CPU s": round(usage.cpuS),
      "peak MB": usage.peakMb,
    };
  } finally {
    await sql.end();
    await db.drop();
  }
}

/** Fetch, decode and insert every transfer, nothing checked and nothing else written. */
export async function measureRawLimit(chain: BusyChain): Promise<Row> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 2 });
  try {
    await sql`create table raw_transfers (like transfers including all)`;
    const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
    const startedMs = performance.now();
    let stored = 0;
    for (let from = 0; from <= head; from += RAW_BLOCKS) {
      const to = Math.min(head, from + RAW_BLOCKS - 1);
      stored += await storeRaw(sql, chain.rpcUrl, from, to);
    }
    const seconds = (performance.now() - startedMs) / 1000;
    return {
      ...{
        bench: "index",
        what: "raw limit: getLogs, decode, insert",
        wallets: 0,
        events: chain.transfers,
        stored,
      },
      ...{
        seconds: round(seconds),
        "events/s": Math.round(chain.transfers / seconds),
        "CPU s": "",
        "peak MB": "",
      },
    };
  } finally {
    await sql.end();
    await db.drop();
  }
}

type RawLog = {
  topics: string[];
  data: string;
  blockNumber: Hex;
  blockHash: Hex;
  transactionHash: Hex;
  logIndex: Hex;
};

async function storeRaw(sql: Sql, rpcUrl: string, from: number, to: number): Promise<number> {
  const filter = {
    fromBlock: toQuantity(from),
    toBlock: toQuantity(to),
    address: USDC,
    topics: [TRANSFER_TOPIC],
  };
  const logs = (await callRpc(rpcUrl, "eth_getLogs", [filter])) as RawLog[];
  const rows = logs.flatMap((log) => {
    const transfer = decodeTransferLog(log);
    if (!transfer) return [];
    return [
      {
        ...{ block_number: Number(log.blockNumber), block_hash: log.blockHash, tx_hash: log.transactionHash },
        ...{ log_index: Number(log.logIndex), from_address: transfer.from, to_address: transfer.to },
        amount_units: transfer.amountUnits.toString(),
      },
    ];
  });
  await sql`
    insert into raw_transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units
    )
    select ${NETWORK}, block_number, block_hash, now(), tx_hash, log_index, from_address, to_address, amount_units
    from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) as given (
      block_number bigint, block_hash text, tx_hash text, log_index int, from_address text, to_address text, amount_units numeric
    )`;
  return rows.length;
}

/** Wallets as old as the chain, joined at its first block; those that are never paid have addresses no receiver has. */
export async function seedWallets(
  sql: Sql,
  { receivers, others }: Pick<Wallets, "receivers" | "others">,
): Promise<void> {
  const addresses = Array.from({ length: receivers }, (_, n) => receiver(n));
  await sql`set statement_timeout = 0`;
  // rows that fit by construction need no foreign keys looked up
  await sql`set session_replication_role = replica`;
  await sql`
    insert into users (id, email, status)
    select 'user_' || n, 'bench' || n || '@example.com', 'ACTIVE'
    from generate_series(1, ${receivers + others}::int) n`;
  await sql`
    insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
    values ('bench', 'user_1', '\\x00', sha256('x'), sha256('y'), 'singleDevice', false, 'localhost')`;
  await sql`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners, indexed_from, backfilled_at)
    select
      'wal_' || n, 'user_' || n, ${NETWORK},
      coalesce((${addresses}::text[])[n], '0x' || left(encode(sha256(n::text::bytea), 'hex'), 40)),
      'bench', '0x' || repeat('1', 40), array['0x00'], 1, now()
    from generate_series(1, ${receivers + others}::int) n`;
  await sql`analyze`;
}

export function indexerEnv(databaseUrl: string, rpcUrl: string): Record<string, string | undefined> {
  const { PATH, HOME } = process.env;
  return {
    ...{ PATH, HOME, NODE_ENV: "test", LOG_LEVEL: "warn", DATABASE_URL: databaseUrl, NETWORKS: NETWORK },
    ...{ RPC_URL_BASE_SEPOLIA: rpcUrl, CONFIRMATIONS_BASE_SEPOLIA: "1" },
  };
}

export async function waitForCursor(sql: Sql, number: number): Promise<void> {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const [row] = await sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
    if (row && Number(row.number) >= number) return;
    if (Date.now() > deadline)
      throw new Error(`the cursor did not reach block ${number} in ${TIMEOUT_MS} ms`);
    await Bun.sleep(LOOK_MS);
  }
}

/** Processor time and highest resident memory of a process so far (proc(5)). */
export function readUsage(pid: number): { cpuS: number; peakMb: number } {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const peakKb = Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0);
  return { cpuS: (Number(stat[11]) + Number(stat[12])) / TICKS_A_SECOND, peakMb: Math.round(peakKb / 1024) };
}

export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
