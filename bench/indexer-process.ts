/** Our indexer as a process to measure: its wallets, when it leads, its cursor, and its resource usage. */
import { readFileSync } from "node:fs";
import { type Hex, NETWORKS } from "../core/domain/networks.ts";
import type { Sql } from "../db/postgres/client.ts";
import { type ServiceProcess, startServiceProcess } from "../local/processes/service-process.ts";
import { receiver } from "./busy-chain.ts";

export const NETWORK = "base-sepolia";
export const USDC: Hex = NETWORKS[NETWORK].usdc.address;
const LOOK_MS = 5;
const TIMEOUT_MS = 600_000;
/** Clock ticks of proc(5). */
const TICKS_A_SECOND = 100;

/** `receivers` of the chain's receivers are wallets of ours; `others` more are never paid. */
export type Wallets = { receivers: number; others: number };

/** `leadingMs`: from start until it has its lock, cursor and wallets. */
export type Indexer = ServiceProcess & { leadingMs: number };

/** Resolves when it leads. */
export async function startIndexer(databaseUrl: string, rpcUrl: string): Promise<Indexer> {
  const { PATH, HOME } = process.env;
  const startedMs = performance.now();
  const leading = Promise.withResolvers<void>();
  const indexer = await startServiceProcess(
    "indexer",
    {
      ...{ PATH, HOME, NODE_ENV: "test", LOG_LEVEL: "info", DATABASE_URL: databaseUrl, NETWORKS: NETWORK },
      ...{ RPC_URL_BASE_SEPOLIA: rpcUrl, CONFIRMATIONS_BASE_SEPOLIA: "1" },
    },
    (line) => {
      if (line.includes('"msg":"leading"')) leading.resolve();
      else if (!line.includes('"level":"info"')) console.error(line);
    },
  );
  const ended = indexer.exited.then((code) => {
    throw new Error(`the indexer ended before it led: ${code}`);
  });
  await Promise.race([leading.promise, ended]);
  // the process is expected to end from here on
  ended.catch(() => undefined);
  return { ...indexer, leadingMs: performance.now() - startedMs };
}

/** Wallets as old as the chain, followed from its first block; unpaid ones have addresses that no receiver has. */
export async function seedWallets(sql: Sql, { receivers, others }: Wallets): Promise<void> {
  const addresses = Array.from({ length: receivers }, (_, n) => receiver(n));
  await sql`set statement_timeout = 0`;
  // rows are consistent by construction, so foreign key checks are skipped
  await sql`set session_replication_role = replica`;
  await sql`
    insert into users (id, email, status)
    select 'user_' || lpad(n::text, 32, '0')::uuid, 'bench' || n || '@example.com', 'ACTIVE'
    from generate_series(1, ${receivers + others}::int) n`;
  await sql`
    insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
    values ('bench', 'user_' || lpad('1', 32, '0')::uuid, '\\x00', sha256('x'), sha256('y'), 'singleDevice', false, 'localhost')`;
  await sql`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners, indexed_from, backfilled_at)
    select
      'wal_' || n, 'user_' || lpad(n::text, 32, '0')::uuid, ${NETWORK},
      coalesce((${addresses}::bytea[])[n], substr(sha256(n::text::bytea), 1, 20)),
      'bench', '0x' || repeat('1', 40), array['0x00'], 1, now()
    from generate_series(1, ${receivers + others}::int) n`;
  await sql`vacuum analyze`;
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

/** CPU time so far, and current and peak resident memory (proc(5)). */
export function readUsage(pid: number): { cpuS: number; residentMb: number; peakMb: number } {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const megabytes = (name: string) =>
    Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024);
  const cpuS = (Number(stat[11]) + Number(stat[12])) / TICKS_A_SECOND;
  return { cpuS, residentMb: megabytes("VmRSS"), peakMb: megabytes("VmHWM") };
}
