/** The event log after its rows were copied into another cluster with lower transaction numbers, as by dump and restore. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { pipeline } from "node:stream/promises";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { startEmbeddedServer, type TestServer } from "../support/postgres-server.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type Service, startService } from "../support/world.ts";

let before: ApiWorld;
let server: TestServer;
let after: Service;
let restored: Sql;
let ann: Merchant;
let annAfter: Client;
/** Ann's cursor and the events she had read. */
let cursor: string;
let listed: string[];

const EVENTS = "/v1/events";
/** More than a new cluster has used after its migration. */
const TRANSACTIONS_BEFORE = 5_000;

beforeAll(async () => {
  before = await startApiWorld();
  await before.sql.unsafe(
    `do $$ begin for n in 1..${TRANSACTIONS_BEFORE} loop perform pg_current_xact_id(); commit; end loop; end $$`,
  );
  ann = await signUp(before.baseUrl);
  ({ listed, cursor } = await readUntil(ann.client, undefined, 4));
  server = await startEmbeddedServer();
  await migrate(server.adminUrl);
  restored = openDatabase(server.adminUrl, { name: "test", maxConnections: 2 });
  await copyRows(before.sql, restored);
  after = await startService({
    db: { url: server.adminUrl },
    chain: before.chainOf("base-sepolia"),
    smtp: { smtpUrl: "smtp://127.0.0.1:1" },
    env: { NODE_ENV: "test", RATE_LIMITS: "0", BASE_URL: before.baseUrl },
    processes: ["api"],
  });
  annAfter = openClient(after.baseUrl);
  for (const [name, value] of ann.client.cookies) annAfter.cookies.set(name, value);
}, 120_000);
afterAll(async () => {
  await after?.stop();
  await restored?.end({ timeout: 1 });
  await server?.stop();
  await before?.stop();
});

/** Copies the rows of all our tables like a dump: without triggers, and with the transaction numbers of the old cluster. */
async function copyRows(from: Sql, to: Sql): Promise<void> {
  const tables = await from<{ name: string }[]>`
    select table_name as name from information_schema.tables 
    where table_schema = 'public' and table_type = 'BASE TABLE' and table_name <> 'migrations'`;
  await to.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    for (const { name } of tables) {
      await tx`truncate ${tx(name)} cascade`;
    }
    for (const { name } of tables) {
      const rows = await from`copy ${from(name)} to stdout`.readable();
      await pipeline(rows, await tx`copy ${tx(name)} from stdin`.writable());
    }
    await tx`select setval(pg_get_serial_sequence('events', 'id'), (select max(id) from events))`;
  });
}

/** Follows the log from a cursor until `count` events were shown, which takes until every older transaction has ended. */
async function readUntil(client: Client, from: string | undefined, count: number) {
  const subjects: string[] = [];
  let next = from;
  const deadline = Date.now() + 45_000;
  while (subjects.length < count) {
    if (Date.now() > deadline) throw new Error(`listed ${subjects.length} of ${count} events`);
    const { status, body } = await client.get(`${EVENTS}?limit=1${next ? `&cursor=${next}` : ""}`);
    expect(status).toBe(200);
    for (const { type, subjectId } of body.data) subjects.push(`${type} ${subjectId}`);
    next = body.pagination.nextCursor ?? next;
    if (body.data.length === 0) await Bun.sleep(20);
  }
  return { listed: subjects, cursor: next ?? "" };
}

const newLink = async (client: Client) =>
  (await client.post("/v1/payment-links", { amount: 1, description: "d" })).body.id as string;

test("the new cluster's transaction numbers are lower (precondition of this file)", async () => {
  const [row] = await restored`
    select bool_and(written_by > pg_current_xact_id()) as are_ahead, count(*)::int as count from events`;
  expect(row).toEqual({ areAhead: true, count: listed.length });
});

test("an old cursor continues with new events, in order and without repetition", async () => {
  const links = [await newLink(annAfter), await newLink(annAfter)];
  const next = await readUntil(annAfter, cursor, 2);
  expect(next.listed).toEqual(links.map((id) => `payment_link.created ${id}`));
  const last = await newLink(annAfter);
  expect((await readUntil(annAfter, next.cursor, 1)).listed).toEqual([`payment_link.created ${last}`]);
});

test("the whole log is returned, old events before new ones", async () => {
  const all = await readUntil(annAfter, undefined, listed.length + 3);
  expect(all.listed.slice(0, listed.length)).toEqual(listed);
  const { body } = await annAfter.get(`${EVENTS}?cursor=${all.cursor}`);
  expect(body.data).toEqual([]);
});

test("error: 400 for a cursor beyond a restored backup", async () => {
  const { cursor: ofTheNew } = await readUntil(annAfter, cursor, 3);
  const { status, body } = await ann.client.get(`${EVENTS}?cursor=${ofTheNew}`);
  expect([status, body.error.details]).toEqual([400, { field: "cursor", issue: "unknown_history" }]);
});
