/** The event log after its cluster was reset to an earlier copy of its files (a volume's snapshot), which changes neither name nor timeline. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { EventPosition } from "../../db/events/cursor-history.ts";
import { listEvents } from "../../db/events/event-log.ts";
import { recordEvents } from "../../db/events/events.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { startMigratedPostgres } from "../support/migrated-cluster.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { seedMerchant } from "../support/seed.ts";

/** More transactions after the snapshot than after its restore. */
const TRANSACTIONS_LOST = 500;
let folder: string;

beforeAll(() => {
  folder = makeDatabaseFolder("test-rewind-");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function withServer<Result>(name: string, work: (sql: Sql) => Promise<Result>): Promise<Result> {
  const database = "rewind";
  const server = await startMigratedPostgres({ dataDir: join(folder, name), database, durable: false });
  const sql = openDatabase(server.url, { name: "test", maxConnections: 1 });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
    await server.stop();
  }
}

async function write(sql: Sql, userId: string, subjectIds: readonly string[]): Promise<void> {
  for (const subjectId of subjectIds) {
    await recordEvents(sql, [{ userId, type: "payment_link.created", subjectId }]);
  }
}

/** Events after a position, and the last position; undefined for a position unknown to this log. */
async function readAfter(sql: Sql, userId: string, after?: EventPosition) {
  const page = await listEvents(sql, userId, { after, limit: 100 });
  return page && { listed: page.events.map(({ subjectId }) => subjectId), last: page.end };
}

test("behavior: no cursor skips events after a restored snapshot: it continues or is unknown", async () => {
  const userId = await withServer("live", async (sql) => {
    const merchant = await seedMerchant(sql);
    await write(sql, merchant.userId, ["a"]);
    return merchant.userId;
  });
  expect(spawnSync("cp", ["-a", join(folder, "live"), join(folder, "restored")]).status).toBe(0);
  const [early, late] = await withServer("live", async (sql) => {
    const before = await readAfter(sql, userId);
    await sql.unsafe(
      `do $$ begin for n in 1..${TRANSACTIONS_LOST} loop perform pg_current_xact_id(); commit; end loop; end $$`,
    );
    await write(sql, userId, ["lost"]);
    const after = await readAfter(sql, userId, before?.last);
    expect(after?.listed).toEqual(["lost"]);
    return [before?.last, after?.last];
  });
  await withServer("restored", async (sql) => {
    await write(sql, userId, ["b", "c"]);
    expect((await readAfter(sql, userId))?.listed).toEqual(["a", "b", "c"]);
    expect((await readAfter(sql, userId, early))?.listed).toEqual(["b", "c"]);
    expect(await readAfter(sql, userId, late)).toBeUndefined();
  });
}, 120_000);

test("behavior: a restart while reading neither repeats nor skips events", async () => {
  const userId = await withServer("plain", async (sql) => {
    const merchant = await seedMerchant(sql);
    await write(sql, merchant.userId, ["a", "b"]);
    return merchant.userId;
  });
  const place = await withServer("plain", async (sql) => {
    const found = await readAfter(sql, userId);
    expect(found?.listed).toEqual(["a", "b"]);
    await write(sql, userId, ["c"]);
    return found?.last;
  });
  await withServer("plain", async (sql) => {
    await write(sql, userId, ["d"]);
    expect((await readAfter(sql, userId, place))?.listed).toEqual(["c", "d"]);
  });
}, 120_000);
