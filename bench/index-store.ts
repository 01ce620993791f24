/**
 * Postgres' CPU time for transfers that are read in bulk: the statement of a backfill or rebuild, without the chain. Transfers with distinct
 * hashes and senders go to 10,000 wallets, `BENCH_CHUNK` (default 1,000) per transaction. CPU is that of the connection's server process,
 * which hardly depends on how busy the machine is.
 */
import type { Hex } from "../core/domain/networks.ts";
import { storePlainTransfers } from "../db/ledger/bulk-transfers.ts";
import type { NewTransfer } from "../db/ledger/transfers.ts";
import { openDatabase, type Sql } from "../db/postgres/client.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { receiver } from "./busy-chain.ts";
import { cpuMilliseconds } from "./cpu-time.ts";
import { NETWORK, seedWallets } from "./indexer-process.ts";
import { describeMachine, printTable, type Row } from "./report.ts";

const TRANSFERS = Number(process.env.BENCH_TRANSFERS ?? 60_000);
const CHUNK = Number(process.env.BENCH_CHUNK ?? 1_000);
const RECEIVERS = 10_000;
const TRANSFERS_A_BLOCK = 200;
const FIRST_BLOCK_S = 1_700_000_000;

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "index store", machine: describeMachine() }));
  const rows: Row[] = [];
  for (const hasEvents of [false, true])
    for (const areNew of [true, false]) rows.push(await measure({ hasEvents, areNew }));
  printTable(rows);
}

async function measure({ hasEvents, areNew }: { hasEvents: boolean; areNew: boolean }): Promise<Row> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 1, genericPlans: true });
  try {
    await seedWallets(sql, { receivers: RECEIVERS, others: 0 });
    await sql`reset session_replication_role`;
    const [server] = await sql<{ pid: number; lsn: string }[]>`
      select pg_backend_pid() as pid, pg_current_wal_lsn()::text as lsn`;
    if (!server) throw new Error("no answer of the server");
    const eventsFromS = hasEvents ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
    const cpuBeforeMs = cpuMilliseconds([server.pid]);
    const ownBefore = process.cpuUsage();
    const startedMs = performance.now();
    for (let first = 0; first < TRANSFERS; first += CHUNK) {
      const chunk = Array.from({ length: Math.min(CHUNK, TRANSFERS - first) }, (_, n) => transfer(first + n));
      await sql.begin((tx) => storePlainTransfers(tx, NETWORK, chunk, { eventsFromS, areNew }));
    }
    const seconds = (performance.now() - startedMs) / 1000;
    const cpuMs = cpuMilliseconds([server.pid]) - cpuBeforeMs;
    const own = process.cpuUsage(ownBefore);
    return {
      ...{ what: `${hasEvents ? "with" : "without"} events, ${areNew ? "all new" : "each looked for"}` },
      ...{ transfers: TRANSFERS, "a transaction": CHUNK },
      ...{ "Postgres CPU µs": perTransfer(cpuMs * 1000), "own CPU µs": perTransfer(own.user + own.system) },
      ...{ "log bytes": perTransfer(await logBytesSince(sql, server.lsn)) },
      ...{ "disk bytes": perTransfer(await diskBytes(sql)), "transfers/s": Math.round(TRANSFERS / seconds) },
    };
  } finally {
    await sql.end();
    await db.drop();
  }
}

function perTransfer(total: number): number {
  return Math.round(total / TRANSFERS);
}

function transfer(n: number): NewTransfer {
  const blockNumber = 1 + Math.floor(n / TRANSFERS_A_BLOCK);
  return {
    ...{
      blockNumber,
      blockHash: hashOf(`block ${blockNumber}`),
      blockTimeS: FIRST_BLOCK_S + 2 * blockNumber,
    },
    ...{ txHash: hashOf(`transaction ${n}`), logIndex: n % TRANSFERS_A_BLOCK },
    ...{ from: hashOf(`sender ${n}`).slice(0, 42) as Hex, to: receiver(n % RECEIVERS) },
    ...{ amountUnits: BigInt(1 + (n % 97) * 10_000), authorizationNonce: undefined },
    ...{
      confirmedAtS: FIRST_BLOCK_S + 2 * blockNumber,
      linkId: undefined,
      pays: false,
      settledBy: undefined,
    },
    ...{ candidates: [], paymentId: undefined, historyPaymentId: undefined, historyClaimId: undefined },
    operationItemId: undefined,
  };
}

function hashOf(text: string): Hex {
  return `0x${new Bun.CryptoHasher("sha256").update(text).digest("hex")}`;
}

async function logBytesSince(sql: Sql, lsn: string): Promise<number> {
  const [row] = await sql<{ bytes: number }[]>`
    select pg_wal_lsn_diff(pg_current_wal_lsn(), ${lsn}::pg_lsn)::float8 as bytes`;
  return row?.bytes ?? 0;
}

async function diskBytes(sql: Sql): Promise<number> {
  const [row] = await sql<{ bytes: number }[]>`
    select sum(pg_total_relation_size(name::regclass))::float8 as bytes
    from unnest(array['transfers', 'transactions', 'events', 'transaction_count_deltas']) as given (name)`;
  return row?.bytes ?? 0;
}
