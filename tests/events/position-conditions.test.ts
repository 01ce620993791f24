/** From where a reader continues, and which positions are unknown: the conditions of the statements, one by one. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import type { EventPosition } from "../../db/events/cursor-history.ts";
import { findNewestPosition, listEvents } from "../../db/events/event-log.ts";
import { recordEvents } from "../../db/events/events.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 3 });
});
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});
beforeEach(async () => {
  merchant = await seedMerchant(sql);
});

const write = (tx: Tx, subjectId: string, { userId } = merchant) =>
  recordEvents(tx, [{ userId, type: "payment_link.created", subjectId }]);
const listAfter = async (after: EventPosition | undefined, { userId } = merchant) =>
  (await listEvents(sql, userId, { after, limit: 10 }))?.events.map(({ subjectId }) => subjectId);

/** The position after this event, which is the newest once nothing older runs, also in another database of the server. */
async function newestIs(subjectId: string): Promise<EventPosition> {
  return waitFor(`the position after ${subjectId}`, async () => {
    const position = await findNewestPosition(sql, merchant.userId);
    const [row] = await sql<
      { subjectId: string }[]
    >`select subject_id from events where id = ${position?.id ?? 0n}`;
    return row?.subjectId === subjectId && position;
  });
}

test("a reader of new events starts before all that could still appear earlier", async () => {
  await write(sql, "known");
  const known = await newestIs("known");
  let start: EventPosition | undefined;
  await sql.begin(async (tx) => {
    await write(tx, "late");
    await write(sql, "soon");
    start = await findNewestPosition(sql, merchant.userId);
    expect(start?.id).toBe(known.id);
  });
  await newestIs("soon");
  expect(await listAfter(start)).toEqual(["late", "soon"]);
});

test("a position is unknown with another user, transaction or epoch, also without a digest as in old cursors", async () => {
  for (const subjectId of ["first", "second"]) await write(sql, subjectId);
  const newest = await newestIs("second");
  await write(sql, "third");
  await newestIs("third");
  const stranger = await seedMerchant(sql);
  await write(sql, "foreign", stranger);
  for (const digest of [newest.digest, undefined]) {
    const position = { ...newest, digest };
    expect(await listAfter(position)).toEqual(["third"]);
    expect(await listAfter(position, stranger)).toBeUndefined();
    expect(await listAfter({ ...position, id: newest.id + 1_000n })).toBeUndefined();
    expect(await listAfter({ ...position, writtenBy: newest.writtenBy - 1n })).toBeUndefined();
    expect(await listAfter({ ...position, epoch: "another" })).toBeUndefined();
  }
  expect(await listAfter({ ...newest, digest: "0".repeat(16) })).toBeUndefined();
});

test("a position stays known when events of an earlier epoch are deleted", async () => {
  await write(sql, "earlier");
  await newestIs("earlier");
  await write(sql, "own");
  await newestIs("own");
  // the server was restored in between, and counts its transactions from an older number
  await sql`update events set epoch = 0 where user_id = ${merchant.userId} and subject_id = 'earlier'`;
  await sql`
    update events
    set ended_before = (select min(written_by) from events where user_id = ${merchant.userId})
    where user_id = ${merchant.userId} and subject_id = 'own'`;
  const position = await newestIs("own");
  await sql`delete from events where user_id = ${merchant.userId} and subject_id = 'earlier'`;
  expect(await listAfter(position)).toEqual([]);
});
