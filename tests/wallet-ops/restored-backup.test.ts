/** A copy of the Postgres folder, put back after sends and refunds went on: each is found on the chain, once, and counts. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import type { LocalPostgres } from "../../local/postgres/postgres.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { copyCluster } from "../support/copy-cluster.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { type Lab, NETWORK, openTerm, randomAddress, until } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { startMigratedPostgres } from "../support/migrated-cluster.ts";
import { expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Service, startService } from "../support/world.ts";
import { makeOwner, type Owner } from "./campaign-load.ts";

setDefaultTimeout(120_000);
const DATABASE = "restored";
const REFUNDED = 250_000_000n;

let folder: string;
let chain: TestChain;
let smtp: TestMailbox;
let postgres: LocalPostgres;
let service: Service;
let sql: Sql;
/** The public origin stays what it was when the passkeys were made. */
let origin: string;
let owner: Owner;
let queuer: Owner;
/** In the backup: prepared by `owner`, and queued by `queuer` while no worker ran. */
let prepared: Answer["body"];
let queuedId: string;
/** Made after the backup, with what its confirmation sent. */
let lost: { sendId: string; confirmation: unknown };
let refundId: string;
const payout = [randomAddress(), randomAddress()] as const;
const [preparedTo, queuedTo, refundTo] = [randomAddress(), randomAddress(), randomAddress()];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "test-restored-"));
  [chain, smtp] = await Promise.all([startTestChain(), startTestMailbox()]);
  await startOn("live");
  [owner, queuer] = await Promise.all([newOwner(), newOwner()]);
  await service.kill("worker");
  prepared = await prepareSend(of(owner), { to: preparedTo, amount: "1" });
  queuedId = (await confirmed(queuer, { to: queuedTo, amount: "2" })).sendId;
  await stopAll();
  copyCluster(join(folder, "live"), join(folder, "backup"));

  await startOn("live");
  await confirm(owner, prepared);
  await waitForSend(of(owner), prepared.sendId);
  await waitForSend(of(queuer), queuedId);
  lost = await confirmed(owner, { payments: payout.map((to) => ({ to, amount: "3", note: "Rent" })) });
  await waitForSend(of(owner), lost.sendId);
  refundId = await refund();
  await stopAll();

  await startOn("backup");
  await until("everything is read", async () => {
    const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
    const [row] = await sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
    return Number(row?.number) === head;
  });
});
afterAll(async () => {
  await stopAll();
  await Promise.all([chain?.stop(), smtp?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function startOn(name: string): Promise<void> {
  postgres = await startMigratedPostgres({ dataDir: join(folder, name), database: DATABASE });
  sql = openDatabase(postgres.url, { name: "test", maxConnections: 2 });
  service = await startService({
    db: postgres,
    chain,
    smtp,
    ...(origin ? { env: { BASE_URL: origin } } : {}),
  });
  origin ??= service.baseUrl;
}

async function stopAll(): Promise<void> {
  await sql?.end({ timeout: 1 });
  await service?.stop();
  await postgres?.stop();
}

function newOwner(): Promise<Owner> {
  return makeOwner({ sql, chain, baseUrl: () => service.baseUrl, random: Math.random });
}

/** The owner's browser, at wherever the API is now. */
function of({ merchant }: Owner): { client: Client; passkey: Owner["merchant"]["passkey"] } {
  const client = openClient(service.baseUrl);
  for (const [key, value] of merchant.client.cookies) client.cookies.set(key, value);
  return { client, passkey: merchant.passkey };
}

async function confirm(whose: Owner, { sendId, challengeId, passkeyChallenge }: Answer["body"]) {
  const { client, passkey } = of(whose);
  const passkeyResponse = await passkey.authenticate(passkeyChallenge);
  const confirmation = { sendId, challengeId, passkeyResponse };
  const answer = await client.post("/v1/wallets/send/confirm", confirmation);
  if (answer.status !== 202) throw new Error(answer.text);
  return { sendId: sendId as string, confirmation };
}

async function confirmed(whose: Owner, body: Record<string, unknown>) {
  return confirm(whose, await prepareSend(of(whose), body));
}

async function refund(): Promise<string> {
  const { client, passkey } = of(owner);
  const body = { toAddress: refundTo, amount: Number(REFUNDED) / 1_000_000, reason: "Broken" };
  const made = (await client.post(`/v1/payment-links/${owner.linkId}/refunds`, body)).body;
  const answer = await client.post(`/v1/refunds/${made.refundId}/confirm`, {
    challengeId: made.challengeId,
    passkeyResponse: await passkey.authenticate(made.passkeyChallenge),
  });
  if (answer.status !== 202) throw new Error(answer.text);
  await until("it is confirmed", async () => {
    return (await client.get(`/v1/refunds/${made.refundId}`)).body.status === "CONFIRMED";
  });
  return made.refundId;
}

const balanceOf = (address: Parameters<typeof readUsdcBalance>[1]) => readUsdcBalance(chain.rpcUrl, address);

test("a send that is unsigned in the backup is CONFIRMED, as on the chain", async () => {
  await waitForSend(of(owner), prepared.sendId);
});

test("a send that is queued in the backup is CONFIRMED and not sent again", async () => {
  await waitForSend(of(queuer), queuedId);
  expect(await balanceOf(queuedTo)).toBe(2_000_000n);
});

test("a send made after the backup is found by its former id; its confirmation sends nothing again", async () => {
  const { client } = of(owner);
  const shown = await waitForSend({ client }, lost.sendId);
  expect(shown).toMatchObject({ status: "CONFIRMED", total: "6.000000", stillPossible: false });
  expect(shown.sendId.slice(-32)).toBe(lost.sendId.slice(-32));
  expect(shown.payments.map(({ to }: { to: string }) => to)).toEqual([...payout]);
  const again = await client.post("/v1/wallets/send/confirm", lost.confirmation);
  expectRefusal(again, 409, { issue: "already_confirmed" });
  const rows = await sql`
    select status from transactions where owner = owner_key(${owner.merchant.userId}) and counterparty = any(${[...payout]}::bytea[])`;
  expect([...rows]).toEqual([{ status: "CONFIRMED" }, { status: "CONFIRMED" }]);
  expect(await Promise.all(payout.map(balanceOf))).toEqual([3_000_000n, 3_000_000n]);
});

test("a refund made after the backup counts for its link: it is not paid back twice", async () => {
  const { client } = of(owner);
  await until("it is found", async () => {
    return (await client.get(`/v1/refunds/${refundId}`)).body.status === "CONFIRMED";
  });
  expect((await client.get(`/v1/refunds/${refundId}`)).body).toMatchObject({
    ...{ status: "CONFIRMED", to: refundTo, amount: "250.000000", linkId: owner.linkId },
  });
  const link = (await client.get(`/v1/payment-links/${owner.linkId}`)).body;
  expect(link).toMatchObject({ status: "PAID", refundedAmount: 250 });
  const over = await client.post(`/v1/payment-links/${owner.linkId}/refunds`, { amount: "750.000001" });
  expectRefusal(over, 409, { issue: "exceeds_refundable", refundable: 750 });
});

test("the ledger agrees with the chain, a rebuild changes nothing, and one without these rows recreates them", async () => {
  await service.kill("indexer", "SIGTERM");
  await assertInvariants(sql, chain, { hasLostRows: true });
  const term = await openTerm({ sql, chain } as Lab);
  try {
    expect((await rebuildNetwork(term)).differences).toEqual([]);
    const restored = await sql<{ id: string }[]>`
      select id from wallet_operations where restored_at is not null order by id collate "C"`;
    expect(restored.map(({ id }) => id.slice(0, 4))).toEqual(["rfd_", "snd_"]);
    const ids = restored.map(({ id }) => id);
    await sql`delete from refunds where id = any(${ids}::text[])`;
    await sql`delete from transactions where operation_id = any(${ids}::text[])`;
    await sql`delete from wallet_operations where id = any(${ids}::text[])`;
    const { differences } = await rebuildNetwork(term);
    expect(differences.map(({ table, rows }) => `${table} ${rows}`)).toEqual([
      "transactions 3",
      "wallet_operations 2",
    ]);
    const after = await sql<{ id: string; state: string }[]>`
      select id, state from wallet_operations where restored_at is not null order by id collate "C"`;
    expect([...after]).toEqual(ids.map((id) => ({ id, state: "CONFIRMED" })));
  } finally {
    term.close();
  }
  await assertInvariants(sql, chain, { hasLostRows: true });
});
