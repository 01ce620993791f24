/**
 * Backup and restore as in an emergency: payments, a backup by the command while the service runs, more payments, then everything but the
 * file and the chain is given up. The file is restored into a new cluster and the service started on it. `bun run drill restore`.
 */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { listBackups } from "../../ops/backup/write-backup.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { makeDatabaseFolder, startEmbeddedServer } from "../support/postgres-server.ts";
import { type PayBody, waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { type Service, startService, startWorld, type World } from "../support/world.ts";
import { type Comparison, compareBooks } from "./compare-books.ts";

const ROOT = join(import.meta.dir, "../..");
const PRICE = 5_000_000n;
const CATCH_UP_MS = 90_000;

export type DrillReport = Comparison & {
  /** Links of each kind: paid before the backup, paid after it, made and paid after it. */
  paid: { before: number; after: number; newer: number };
  /** What the commands printed. */
  output: string;
  /** A payment of a link that was open, by the restored service. */
  paidOnRestored: boolean;
  /** A second payment of a link that was paid after the backup. */
  refusedOnRestored: number;
};

export async function runRestoreDrill({ count = 3 } = {}): Promise<DrillReport> {
  const folder = makeDatabaseFolder("drill-restore-");
  const world = await startWorld();
  const key = randomBytes(32).toString("hex");
  const run = (script: string, databaseUrl: string, ...args: string[]) =>
    runCommand([script, ...args], { DATABASE_URL: databaseUrl, BACKUP_KEY: key });
  try {
    const merchant = await seedMerchant(world.sql);
    const links = await seedLinks(world.sql, merchant, { count: 2 * count + 1, amountUnits: PRICE });
    const [before, after, open = ""] = [links.slice(0, count), links.slice(count, 2 * count), links.at(-1)];
    for (const link of before) await payUntilPaid(world, world.sql, merchant, link);
    const output = [await run("ops/backup-main.ts", world.db.url, "--folder", folder)];
    for (const link of after) await payUntilPaid(world, world.sql, merchant, link);
    const newer = await seedLinks(world.sql, merchant, { count: 1, amountUnits: PRICE });
    for (const link of newer) await payUntilPaid(world, world.sql, merchant, link);
    for (const name of ["api", "worker", "indexer"] as const) await world.kill(name);

    const server = await startEmbeddedServer();
    const [file = ""] = listBackups(folder);
    output.push(await run("ops/restore-main.ts", server.adminUrl, file));
    const restored = openDatabase(server.adminUrl, { name: "drill", maxConnections: 2 });
    const service = await startService({
      db: { url: server.adminUrl },
      chain: world.chain,
      smtp: world.mailbox,
    });
    try {
      await waitForHead(world, restored, merchant);
      const comparison = await compareBooks(world.sql, restored);
      const refused = await pay(service, world, merchant, after[0] ?? "");
      await payUntilPaid(service, restored, merchant, open, world);
      return {
        ...comparison,
        paid: { before: before.length, after: after.length, newer: newer.length },
        output: output.join("\n"),
        paidOnRestored: true,
        refusedOnRestored: refused.status,
      };
    } finally {
      await service.stop();
      await restored.end({ timeout: 5 });
      await server.stop();
    }
  } finally {
    await world.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function pay(service: Service, { chain }: World, merchant: SeededMerchant, linkId: string) {
  const payer = makePayer();
  await fundUsdc(chain.rpcUrl, payer.address, PRICE);
  const payment = await signPayment(payer, { to: merchant.address, amountUnits: PRICE });
  const response = await fetch(`${service.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(shapeA(payment)),
  });
  return { status: response.status, body: (await response.json()) as PayBody };
}

async function payUntilPaid(
  service: Service,
  sql: Sql,
  merchant: SeededMerchant,
  linkId: string,
  world: World = service as World,
): Promise<void> {
  const { status, body } = await pay(service, world, merchant, linkId);
  if (status !== 200) throw new Error(`${linkId} was refused: ${status} ${JSON.stringify(body)}`);
  await waitFor(`${linkId} to be PAID`, async () => {
    const [link] = await sql<{ status: string }[]>`select status from payment_links where id = ${linkId}`;
    return link?.status === "PAID";
  });
}

async function waitForHead({ chain }: World, sql: Sql, { network }: SeededMerchant): Promise<void> {
  const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
  await waitFor(
    "the restored indexer to be at the head",
    async () => {
      const [row] = await sql<{ number: bigint }[]>`select number from cursors where network = ${network}`;
      return row !== undefined && Number(row.number) >= head;
    },
    CATCH_UP_MS,
  );
}

async function runCommand(args: readonly string[], env: Record<string, string>): Promise<string> {
  const child = Bun.spawn([process.execPath, "--no-env-file", ...args], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    ...({ stdout: "pipe", stderr: "pipe" } as const),
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(`${args.join(" ")}: ${output}${errors}`);
  return output;
}
