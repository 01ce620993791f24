/** The event log after an asynchronous failover: the promoted standby lacks its primary's last commits and reuses their ids for other events. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { recordEvents } from "../../db/events/events.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import type { Client } from "../support/http-client.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type ReplicatedPostgres, startReplicatedPostgres } from "../support/standby.ts";
import { type Service, startService } from "../support/world.ts";

/** More than a sequence skips at a failover (32), so that ids are reused. */
const LINKS_LOST = 40;
const LINKS_AFTER = 20;
const FIRST_EVENTS = ["user.registered", "user.verified", "wallet.created", "user.activated"];
const TIMEOUT_MS = 90_000;

type Reading = { subjects: string[]; cursor: string };

let folder: string;
let pair: ReplicatedPostgres;
let chain: TestChain;
let service: Service;
let sql: Sql;
let pidBefore: number;
/** Loses nothing. */
let carol: Merchant;
let carolEnd: Reading;
/** Loses her last links. */
let ann: Merchant;
let annBefore: Reading;
let annLost: Reading;
let lostIds: bigint[];
/** Ann's links after the failover. */
let linksAfter: string[];
/** Of two transactions, the one with the lower number committed last and is lost. */
let bob: Merchant;
let bobEnd: Reading;
/** Like Bob's, but both have reached the standby. */
let erin: Merchant;
let erinEnd: Reading;

beforeAll(async () => {
  folder = makeDatabaseFolder("test-promotion-");
  pair = await startReplicatedPostgres({ folder, database: "promotion" });
  chain = await startTestChain();
  sql = openDatabase(pair.url, { name: "test", maxConnections: 4 });
  const relayer = localAccount(0).address.toLowerCase();
  await sql`insert into relayers (network, address, next_nonce) values ('base-sepolia', ${relayer}, 0)`;
  service = await startService({
    ...{ db: pair, chain, smtp: { smtpUrl: "smtp://127.0.0.1:1" }, processes: ["api"] },
    env: { NODE_ENV: "test", RATE_LIMITS: "0" },
  });
  pidBefore = service.pidOf("api");
  carol = await signUp(service.baseUrl);
  ann = await signUp(service.baseUrl);
  bob = await signUp(service.baseUrl);
  erin = await signUp(service.baseUrl);
  [carolEnd, annBefore] = [await read(carol.client, undefined, 4), await read(ann.client, undefined, 4)];
  const [bobBefore, erinBefore] = [
    await read(bob.client, undefined, 4),
    await read(erin.client, undefined, 4),
  ];
  const [bobLate, erinLate] = [await holdOpen(bob, "late"), await holdOpen(erin, "late")];
  for (const { userId } of [bob, erin])
    await recordEvents(sql, [{ userId, type: "wallet.created", subjectId: "early" }]);
  await erinLate.commit();
  await pair.waitForStandby();
  pair.cutReplication();
  await bobLate.commit();
  for (let count = 0; count < LINKS_LOST; count++) await newLink(ann.client);
  annLost = await read(ann.client, annBefore.cursor, LINKS_LOST);
  bobEnd = await read(bob.client, bobBefore.cursor, 2);
  erinEnd = await read(erin.client, erinBefore.cursor, 2);
  expect([bobEnd.subjects, erinEnd.subjects]).toEqual([
    ["late", "early"],
    ["late", "early"],
  ]);
  const rows = await sql<{ id: bigint }[]>`
    select id from events where user_id = ${ann.userId} and subject_id = any(${annLost.subjects})`;
  lostIds = rows.map(({ id }) => id);
  await pair.failOver();
  linksAfter = [];
  while (linksAfter.length < LINKS_AFTER) linksAfter.push(await newLink(ann.client));
}, 180_000);

afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await service?.stop();
  await Promise.all([pair?.stop(), chain?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

/** An uncommitted transaction that has written an event: later ones commit before it. */
async function holdOpen({ userId }: Merchant, subjectId: string) {
  const { promise: mayCommit, resolve: commit } = Promise.withResolvers<void>();
  const { promise: hasWritten, resolve: tellWritten } = Promise.withResolvers<void>();
  const ended = sql.begin(async (tx) => {
    await recordEvents(tx, [{ userId, type: "wallet.created", subjectId }]);
    tellWritten();
    await mayCommit;
  });
  await hasWritten;
  return {
    async commit() {
      commit();
      await ended;
    },
  };
}

/** Retried: right after the failover the API's pool has broken connections. */
async function newLink(client: Client): Promise<string> {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const { status, body, text } = await client.post("/v1/payment-links", { amount: 1, description: "d" });
    if (status === 201) return body.id;
    if (status < 500 || Date.now() > deadline) throw new Error(`${status} ${text}`);
    await Bun.sleep(20);
  }
}

/** Follows the log from a cursor until it has shown `count` events. */
async function read(client: Client, from: string | undefined, count: number): Promise<Reading> {
  const subjects: string[] = [];
  let cursor = from;
  const deadline = Date.now() + TIMEOUT_MS;
  while (subjects.length < count) {
    if (Date.now() > deadline) throw new Error(`${subjects.length} of ${count} events were shown`);
    const { status, body } = await ask(client, cursor, count - subjects.length);
    expect(status).toBe(200);
    for (const { subjectId } of body.data) subjects.push(subjectId);
    cursor = body.pagination.nextCursor ?? cursor;
    if (body.data.length === 0) await Bun.sleep(20);
  }
  return { subjects, cursor: cursor ?? "" };
}

async function ask(client: Client, cursor: string | undefined, limit = 100) {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const answer = await client.get(`/v1/events?limit=${limit}${cursor ? `&cursor=${cursor}` : ""}`);
    if (answer.status < 500 || Date.now() > deadline) return answer;
    await Bun.sleep(20);
  }
}

async function expectUnknown(merchant: Merchant, cursor: string): Promise<void> {
  const { status, body } = await ask(merchant.client, cursor);
  expect([status, body.error?.details]).toEqual([400, { field: "cursor", issue: "unknown_history" }]);
}

/** Cursors of the version without a digest. */
function withoutSeal(cursor: string): string {
  const parts = Buffer.from(cursor, "base64url").toString().split(".");
  expect(parts.length).toBe(4);
  return Buffer.from(parts.slice(0, 3).join(".")).toString("base64url");
}

test("behavior: a cursor known to the standby continues with the new primary's events, without a restart of the API", async () => {
  const after = await read(ann.client, annBefore.cursor, LINKS_AFTER);
  expect(after.subjects).toEqual(linksAfter);
  expect((await ask(ann.client, after.cursor)).body.data).toEqual([]);
  expect(service.pidOf("api")).toBe(pidBefore);
});

test("the new primary reuses ids of lost events (precondition of this file)", async () => {
  const rows = await sql<{ subjectId: string }[]>`
    select subject_id from events where id = any(${lostIds.map(String)}::text[]::bigint[])`;
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.filter(({ subjectId }) => annLost.subjects.includes(subjectId))).toEqual([]);
});

test("error: 400 unknown_history for a cursor whose event is lost and its id reused", async () => {
  await expectUnknown(ann, annLost.cursor);
  await expectUnknown(ann, withoutSeal(annLost.cursor));
});

test("error: 400 unknown_history for a cursor whose event survived but an earlier shown event did not", async () => {
  const rows = await sql<{ subjectId: string }[]>`
    select subject_id from events where user_id = ${bob.userId} and subject_id in ('early', 'late')`;
  expect(rows).toEqual([{ subjectId: "early" }] as never);
  await expectUnknown(bob, bobEnd.cursor);
});

test("behavior: a cursor stays valid when both transactions that committed out of order survived", async () => {
  const { status, body } = await ask(erin.client, erinEnd.cursor);
  expect([status, body.data]).toEqual([200, []]);
});

test("behavior: a cursor at the end of a log without loss stays valid, with and without a digest", async () => {
  for (const cursor of [carolEnd.cursor, withoutSeal(carolEnd.cursor)]) {
    const { status, body } = await ask(carol.client, cursor);
    expect([status, body.data]).toEqual([200, []]);
  }
  const link = await newLink(carol.client);
  expect((await read(carol.client, carolEnd.cursor, 1)).subjects).toEqual([link]);
});

test("behavior: the log read from its beginning contains surviving events, then new ones", async () => {
  const { body } = await ask(ann.client, undefined);
  const types = body.data.map(({ type }: { type: string }) => type);
  expect(types).toEqual([...FIRST_EVENTS, ...Array(LINKS_AFTER).fill("payment_link.created")]);
});
