import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { listEvents } from "../../db/events/event-log.ts";
import { recordEvents } from "../../db/events/events.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { openClient } from "../support/http-client.ts";
import { createEmptyDatabase } from "../support/postgres.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

let world: MerchantWorld;
let ann: Merchant;
let bob: Merchant;

beforeAll(async () => {
  world = await startMerchantWorld();
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
  // an event of its own, whenever the account is there
  await waitFor("both accounts to be deployed", async () => {
    const rows = await world.sql`select from events where type = 'wallet.deployed'`;
    return rows.length === 2;
  });
}, 120_000);
afterAll(() => world?.stop());

type Listed = { id: string; type: string; subjectId: string };

async function readAll(merchant: Merchant, cursor: string | null, limit = 100) {
  const events: Listed[] = [];
  for (let page = 0; page < 100; page++) {
    const { status, body } = await merchant.client.get(
      `/v1/events?limit=${limit}${cursor === null ? "" : `&cursor=${cursor}`}`,
    );
    expect(status).toBe(200);
    events.push(...body.data);
    cursor = body.pagination.nextCursor;
    if (!body.pagination.hasNextPage) return { events, cursor };
  }
  throw new Error("the log does not end");
}

/** Waits until no open transaction hides what was just written. */
async function settle(): Promise<void> {
  const [{ now } = { now: "0" }] = await world.sql<
    { now: string }[]
  >`select pg_current_xact_id()::text as now`;
  for (;;) {
    const [row] =
      await world.sql`select pg_snapshot_xmin(pg_current_snapshot()) > ${now}::text::xid8 as is_past`;
    if (row?.isPast) return;
    await Bun.sleep(20);
  }
}

class RolledBack extends Error {}

/** A transaction that has written, and stays open until `end`. */
async function holdTransaction(sql: Sql): Promise<{ end: () => Promise<void> }> {
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const held = sql.begin(async (tx) => {
    await tx`select pg_current_xact_id()`;
    begun.resolve();
    await ended.promise;
  });
  await Promise.race([begun.promise, held]);
  return {
    async end() {
      ended.resolve();
      await held;
    },
  };
}

describe("the event log", () => {
  test("returns a merchant's events in order, in the general envelope", async () => {
    const { body: link } = await ann.client.post("/v1/payment-links", { amount: 2, description: "d" });
    await ann.client.post(`/v1/payment-links/${link.id}/cancel`);
    await settle();
    const { body } = await ann.client.get("/v1/events");
    expect(body.meta.requestId).toMatch(/^req_/);
    expect(body.pagination).toMatchObject({ hasNextPage: false, limit: 50 });
    const about = body.data.filter((event: Listed) => event.subjectId === link.id);
    expect(about.map((event: Listed) => event.type)).toEqual([
      "payment_link.created",
      "payment_link.cancelled",
    ]);
    expect(about[0].id).toMatch(/^evt_[0-9a-f]{32}$/);
    const { body: shown } = await ann.client.get(`/v1/payment-links/${link.id}`);
    expect(about[0].data).toEqual({ amount: "2.000000", network: "base-sepolia", link: shown });
    expect(Date.parse(about[0].createdAt)).toBeGreaterThan(Date.now() - 60_000);
  });

  test("continues from a cursor, also from the end of the log", async () => {
    await settle();
    const { cursor } = await readAll(ann, null);
    const nothing = await readAll(ann, cursor);
    expect(nothing).toEqual({ events: [], cursor });
    await ann.client.post("/v1/payment-links", { amount: 3, description: "d" });
    await settle();
    expect((await readAll(ann, nothing.cursor)).events.map(({ type }) => type)).toEqual([
      "payment_link.created",
    ]);
  });

  test("contains no events of another user", async () => {
    await settle();
    const { events } = await readAll(bob, null);
    expect(events.length).toBeGreaterThan(0);
    const subjects = new Set((await readAll(ann, null)).events.map(({ id }) => id));
    for (const { id } of events) expect(subjects.has(id)).toBe(false);
  });

  test("never skips an event that commits late, even if its id is older", async () => {
    await settle();
    let { cursor } = await readAll(ann, null);
    const event = (subjectId: string) => [{ userId: ann.userId, type: "wallet.created" as const, subjectId }];
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let started = () => {};
    const isStarted = new Promise<void>((resolve) => {
      started = resolve;
    });
    const late = world.sql.begin(async (tx) => {
      await recordEvents(tx, event("late"));
      started();
      await held;
    });
    await isStarted;
    await recordEvents(world.sql, event("early"));
    const meanwhile = await readAll(ann, cursor);
    // events that could still be preceded by others are not shown
    expect(meanwhile.events).toEqual([]);
    cursor = meanwhile.cursor;
    release();
    await late;
    await settle();
    const listed = (await readAll(ann, cursor)).events.map(({ subjectId }) => subjectId);
    expect(listed).toEqual(["late", "early"]);
  });

  test("is held back by an older transaction of this database, not by one of another in the same cluster", async () => {
    await settle();
    const { cursor } = await readAll(ann, null);
    const other = await createEmptyDatabase();
    const otherSql = openDatabase(other.url, { name: "other", maxConnections: 1 });
    const [own, foreign] = [await holdTransaction(world.sql), await holdTransaction(otherSql)];
    try {
      await recordEvents(world.sql, [{ userId: ann.userId, type: "wallet.created", subjectId: "held" }]);
      // longer than it takes to look whose transaction it is
      await Bun.sleep(1_500);
      expect((await readAll(ann, cursor)).events).toEqual([]);
      await own.end();
      await waitFor("the event to be shown", async () => {
        const { events } = await readAll(ann, cursor);
        return events.map(({ subjectId }) => subjectId).join() === "held";
      });
      // also to a role that may not see the other's sessions
      await world.sql
        .begin(async (tx) => {
          await tx`create role event_reader`;
          await tx`grant select on all tables in schema public to event_reader`;
          await tx`set local role event_reader`;
          const page = await listEvents(tx, ann.userId, { limit: 100 });
          expect(page?.events.at(-1)?.subjectId).toBe("held");
          throw new RolledBack();
        })
        .catch((error: unknown) => {
          if (!(error instanceof RolledBack)) throw error;
        });
    } finally {
      await Promise.all([own.end(), foreign.end()]);
      await otherSql.end();
      await other.drop();
    }
  });

  test("a reader following 20 concurrent writers gets each event exactly once", async () => {
    await settle();
    let { cursor } = await readAll(ann, null);
    const seen: string[] = [];
    let isWriting = true;
    const follow = async () => {
      const next = await readAll(ann, cursor, 7);
      cursor = next.cursor;
      // the worker may write of the wallet concurrently
      seen.push(...next.events.map(({ subjectId }) => subjectId).filter((subject) => /^w\d/.test(subject)));
    };
    const reading = (async () => {
      while (isWriting) await follow();
    })();
    await Promise.all(
      Array.from({ length: 20 }, async (_, writer) => {
        for (let n = 0; n < 10; n++)
          await world.sql.begin(async (tx) => {
            await recordEvents(tx, [
              { userId: ann.userId, type: "wallet.created", subjectId: `w${writer}-${n}` },
            ]);
            await Bun.sleep((writer * 7 + n * 3) % 11);
          });
      }),
    );
    isWriting = false;
    await reading;
    await settle();
    await follow();
    expect(seen.length).toBe(200);
    expect(new Set(seen).size).toBe(200);
  }, 120_000);

  test.each(["cursor=x", "cursor=%00", "cursor=MTIz", "limit=0", "limit=101", "limit=x"])(
    "error: %s",
    async (query) => {
      const { status, body } = await ann.client.get(`/v1/events?${query}`);
      expect([status, body.error.details.field]).toEqual([400, query.split("=")[0] ?? ""]);
    },
  );

  test("error: 401 without a session", async () => {
    expect((await openClient(world.baseUrl).get("/v1/events")).status).toBe(401);
  });
});
