/** Backfill speed of the indexer on a busy chain, beside the minimum that any indexer must do with the same node and database. */

import { decodeTransferLog, TRANSFER_TOPIC } from "../core/chain/usdc.ts";
import type { Hex } from "../core/domain/networks.ts";
import { toQuantity } from "../core/rpc/parse-answers.ts";
import { openDatabase, type Sql } from "../db/postgres/client.ts";
import { callRpc } from "../local/chain/rpc.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import type { BusyChain } from "./busy-chain.ts";
import { cpuMilliseconds } from "./cpu-time.ts";
import {
  NETWORK,
  readUsage,
  seedWallets,
  startIndexer,
  USDC,
  type Wallets,
  waitForCursor,
} from "./indexer-process.ts";
import { type Row, round } from "./report.ts";

const RAW_BLOCKS = 50;

export type Backfill = {
  what: string;
  events: number;
  stored: number;
  seconds: number;
  cpuS?: number;
  postgresS?: number;
  peakMb?: number;
};

/** `rawPerS`: the result of measureRawLimit on the same chain. */
export function toBackfillRow({ what, events, stored, ...cost }: Backfill, rawPerS: number): Row {
  const perS = events / cost.seconds;
  return {
    ...{ bench: "index backfill", what, events, stored, seconds: round(cost.seconds) },
    ...{ "events/s": Math.round(perS), "of raw %": Math.round((perS / rawPerS) * 100) },
    ...{ "CPU s": cost.cpuS ?? "", "peak MB": cost.peakMb ?? "" },
    ...{ "CPU µs/event": perEvent(cost.cpuS, events), "Postgres µs/event": perEvent(cost.postgresS, events) },
  };
}

function perEvent(seconds: number | undefined, events: number): number | string {
  return seconds === undefined ? "" : Math.round((seconds * 1e6) / events);
}

export async function measureBackfill(chain: BusyChain, what: string, wallets: Wallets): Promise<Backfill> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 1 });
  try {
    await seedWallets(sql, wallets);
    const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
    const startedMs = performance.now();
    const indexer = await startIndexer(db.url, chain.rpcUrl);
    await waitForCursor(sql, head);
    const seconds = (performance.now() - startedMs) / 1000;
    const { cpuS, peakMb } = readUsage(indexer.pid);
    const sessions = await sql<{ pid: number }[]>`
      select pid
      from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`;
    const postgresS = cpuMilliseconds(sessions.map(({ pid }) => pid)) / 1000;
    await indexer.stop();
    const [stored] = await sql<{ n: bigint }[]>`select count(*) as n from transfers`;
    return {
      what,
      events: chain.transfers(),
      stored: Number(stored?.n ?? 0n),
      seconds,
      cpuS,
      postgresS,
      peakMb,
    };
  } finally {
    await sql.end();
    await db.drop();
  }
}

/** Fetches, decodes and inserts every transfer, without any check or other write. */
export async function measureRawLimit(chain: BusyChain): Promise<Backfill> {
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
    return { what: "raw limit: getLogs, decode, insert", events: chain.transfers(), stored, seconds };
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
    select
      ${NETWORK}, block_number, bytes_of(block_hash), now(), bytes_of(tx_hash), log_index, bytes_of(from_address),
      bytes_of(to_address), amount_units
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      block_number bigint, block_hash text, tx_hash text, log_index int, from_address text, to_address text, amount_units numeric
    )`;
  return rows.length;
}
