/** A copy of the Postgres folder, put back after payments went on: what the chain knows of x402 payments comes back, also among links of one price. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import type { LocalPostgres } from "../../local/postgres/postgres.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { copyCluster } from "../support/copy-cluster.ts";
import { assertInvariants } from "../support/invariants.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { startMigratedPostgres } from "../support/migrated-cluster.ts";
import { makePayer, type SignedPayment, shapeA, signPayment } from "../support/payer.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { type PayBody, waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";
import { type Service, startService } from "../support/world.ts";

const DATABASE = "restored";
const PRICE = 5_000_000n;
const TWINS = 4;
const PAID_TWINS = 3;
/** One paid before the backup, one made and paid after it. */
const OTHER_LINKS = 2;

type Paid = { linkId: string; payment: SignedPayment; txHash: string };

let folder: string;
let chain: TestChain;
let smtp: TestMailbox;
let postgres: LocalPostgres;
let service: Service;
let sql: Sql;
let merchant: SeededMerchant;
/** Links of one price that are in the backup; the last one is never paid. */
let twins: string[];
let paid: Paid[];
/** A link made and paid after the backup. */
let newer: Paid;
/** Of a payer who pays the first twin as soon as the restored API answers. */
let rival: { status: number; body: PayBody; balance: bigint };

beforeAll(async () => {
  folder = makeDatabaseFolder("test-restored-");
  [chain, smtp] = await Promise.all([startTestChain(), startTestMailbox()]);
  await startOn("live");
  merchant = await seedMerchant(sql);
  twins = await seedLinks(sql, merchant, { count: TWINS, amountUnits: PRICE });
  // whose tags count is in the backup, too: relayers that work when it is made
  await payAndSettle(await seedLink(sql, merchant, { amountUnits: PRICE }));
  await stopAll();
  copyCluster(join(folder, "live"), join(folder, "backup"));

  await startOn("live");
  paid = [];
  for (const linkId of twins.slice(0, PAID_TWINS)) paid.push(await payAndSettle(linkId));
  newer = await payAndSettle(await seedLink(sql, merchant, { amountUnits: PRICE }));
  await stopAll();

  await startOn("backup");
  const [first = ""] = twins;
  rival = await payAsRival(first);
  await waitForHead();
}, 240_000);

afterAll(async () => {
  await stopAll();
  await Promise.all([chain?.stop(), smtp?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function startOn(name: string): Promise<void> {
  postgres = await startMigratedPostgres({ dataDir: join(folder, name), database: DATABASE });
  sql = openDatabase(postgres.url, { name: "test", maxConnections: 2 });
  service = await startService({ db: postgres, chain, smtp });
}

async function stopAll(): Promise<void> {
  await sql?.end({ timeout: 1 });
  await service?.stop();
  await postgres?.stop();
}

async function sign(amountUnits: bigint): Promise<SignedPayment> {
  const payer = makePayer();
  await fundUsdc(chain.rpcUrl, payer.address, amountUnits);
  return signPayment(payer, { to: merchant.address, amountUnits });
}

async function post(linkId: string, payment: SignedPayment): Promise<{ status: number; body: PayBody }> {
  const response = await fetch(`${service.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(shapeA(payment)),
  });
  return { status: response.status, body: (await response.json()) as PayBody };
}

async function payAndSettle(linkId: string): Promise<Paid> {
  const payment = await sign(PRICE);
  const { status, body } = await post(linkId, payment);
  expect([status, body.settled]).toEqual([200, true]);
  await waitFor(`${linkId} to be PAID`, async () => (await standingOf(linkId))?.status === "PAID");
  return { linkId, payment, txHash: body.txHash ?? "" };
}

/** Until the payment is refused or accepted: "try again" is no answer yet. */
async function payAsRival(linkId: string) {
  const payment = await sign(PRICE);
  const answer = await waitFor("the competing request's answer", async () => {
    const found = await post(linkId, payment);
    return found.status < 500 && found;
  });
  return { ...answer, balance: await readUsdcBalance(chain.rpcUrl, payment.from) };
}

async function standingOf(linkId: string) {
  const [row] = await sql<{ status: string; txHash: string | null; payer: string | null }[]>`
    select link.status, transfer.tx_hash, transfer.from_address as payer
    from payment_links link
    left join transfers transfer on transfer.link_id = link.id and transfer.pays and transfer.status <> 'ORPHANED'
    where link.id = ${linkId}`;
  return row;
}

/** The indexer has read what was the head when the backup was started, and confirmed it. */
async function waitForHead(): Promise<void> {
  const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
  await waitFor("the indexer to be at the head", async () => {
    const [row] = await sql<
      { number: bigint }[]
    >`select number from cursors where network = ${merchant.network}`;
    return row !== undefined && Number(row.number) >= head;
  });
}

test("behavior: links of one price that were paid after the backup are PAID again, each by its own payer's transfer", async () => {
  for (const { linkId, payment, txHash } of paid) {
    expect(await standingOf(linkId)).toEqual({ status: "PAID", txHash, payer: payment.from });
  }
});

test("behavior: the unpaid link of that price is ACTIVE, and can be paid", async () => {
  const open = twins[PAID_TWINS] ?? "";
  expect((await standingOf(open))?.status).toBe("ACTIVE");
  const { txHash, payment } = await payAndSettle(open);
  expect(await standingOf(open)).toEqual({ status: "PAID", txHash, payer: payment.from });
});

test("behavior: a payer of a paid link is not charged when paying as soon as the restored API responds", () => {
  expect(rival.body.success).toBe(false);
  expect(["LINK_ALREADY_PAID", "PAYMENT_IN_PROGRESS"]).toContain(rival.body.error ?? "");
  expect(rival.balance).toBe(PRICE);
});

test("error: 409 NONCE_USED with the transaction's hash for a payload that has paid", async () => {
  for (const { linkId, payment, txHash } of paid) {
    const { status, body } = await post(linkId, payment);
    expect([status, body.error, body.txHash]).toEqual([409, "NONCE_USED", txHash]);
  }
});

test("behavior: a link created after the backup is unknown, and its transfer is in the history without a link", async () => {
  expect(await standingOf(newer.linkId)).toBeUndefined();
  const rows = await sql<{ type: string; status: string; linkId: string | null }[]>`
    select type, status, link_id from transactions where tx_hash = ${newer.txHash}`;
  expect(rows).toEqual([{ type: "RECEIVE", status: "CONFIRMED", linkId: null }] as never);
});

test("behavior: history and chain agree, and the next nonces are free", async () => {
  await assertInvariants(sql, chain, { hasLostRows: true });
  expect(await readUsdcBalance(chain.rpcUrl, merchant.address)).toBe(PRICE * BigInt(TWINS + OTHER_LINKS));
});
