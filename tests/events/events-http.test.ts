/** The event log over HTTP: every event once, in the order it was written, from any cursor. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import type { Client } from "../support/http-client.ts";
import { signUp } from "../support/sign-up.ts";

let world: ApiWorld;

beforeAll(async () => {
  world = await startApiWorld();
}, 120_000);
afterAll(() => world?.stop());

const EVENTS = "/v1/events";

/** Subjects of all events, read `limit` at a time. */
async function walk(client: Client, limit: number): Promise<string[]> {
  const subjects: string[] = [];
  let cursor = "";
  for (;;) {
    const { status, body } = await client.get(`${EVENTS}?limit=${limit}${cursor && `&cursor=${cursor}`}`);
    expect(status).toBe(200);
    subjects.push(...body.data.map(({ subjectId }: { subjectId: string }) => subjectId));
    cursor = body.pagination.nextCursor;
    if (!body.pagination.hasNextPage) return subjects;
  }
}

/**
 * Signs up and waits until the log is complete: an event is shown once every older transaction has ended, including those of
 * other databases on the same server.
 */
async function signUpToTheEnd() {
  const merchant = await signUp(world.baseUrl);
  await waitForLog(merchant);
  return merchant;
}

async function waitForLog({ client, userId }: { client: Client; userId: string }): Promise<void> {
  const deadline = Date.now() + 45_000;
  for (;;) {
    const [row] = await world.sql<{ count: number }[]>`
      select count(*)::int as count from events where user_id = ${userId}`;
    if ((await walk(client, 100)).length === row?.count) return;
    if (Date.now() > deadline)
      throw new Error(`the log of ${userId} does not show all of its ${row?.count} events`);
    await Bun.sleep(20);
  }
}

describe("GET /v1/events", () => {
  test("returns a new merchant's events in order", async () => {
    const merchant = await signUp(world.baseUrl);
    const { client } = merchant;
    const { body } = await client.post("/v1/payment-links", { amount: 1, description: "d" });
    await waitForLog(merchant);
    const events = (await client.get(EVENTS)).body.data;
    expect(events.map(({ type }: { type: string }) => type)).toEqual([
      "user.registered",
      "user.verified",
      "wallet.created",
      "user.activated",
      "payment_link.created",
    ]);
    expect(events.at(-1)).toMatchObject({ subjectId: body.id, data: { network: "base-sepolia" } });
  });

  test.each([1, 2, 100])(
    "returns every event once, %i at a time, across a transaction number that gains a digit",
    async (limit) => {
      const { client, userId } = await signUpToTheEnd();
      const kept = await walk(client, 100);
      // long before this database's own
      const written = ["8", "9", "10", "11", "99", "100"];
      for (const writtenBy of written)
        await world.sql`
        insert into events (user_id, type, subject_id, data, written_by)
        values (${userId}, 'payment_link.created', ${`link_${writtenBy}`}, '{}', ${writtenBy}::text::xid8)`;
      const expected = [...written.map((writtenBy) => `link_${writtenBy}`), ...kept];
      expect(await walk(client, limit)).toEqual(expected);
    },
  );

  test("the last cursor continues with later events", async () => {
    const merchant = await signUpToTheEnd();
    const { client } = merchant;
    const { nextCursor } = (await client.get(EVENTS)).body.pagination;
    expect((await client.get(`${EVENTS}?cursor=${nextCursor}`)).body.data).toEqual([]);
    const { body } = await client.post("/v1/payment-links", { amount: 1, description: "d" });
    await waitForLog(merchant);
    const next = await client.get(`${EVENTS}?cursor=${nextCursor}`);
    expect(next.body.data.map(({ subjectId }: { subjectId: string }) => subjectId)).toEqual([body.id]);
  });

  test("a cursor without an epoch, as in version 0.1, continues in the first epoch", async () => {
    const { client, userId } = await signUpToTheEnd();
    const rows = await world.sql<{ id: string }[]>`
      insert into events (user_id, type, subject_id, data, written_by, epoch)
      select ${userId}, 'wallet.created', 'old ' || n, '{}', '7'::xid8, 1 from generate_series(1, 2) n
      returning id::text`;
    const cursor = Buffer.from(`7.${rows[0]?.id}`).toString("base64url");
    const { body } = await client.get(`${EVENTS}?cursor=${cursor}&limit=1`);
    expect(body.data[0].subjectId).toBe("old 2");
    expect((await walk(client, 100)).slice(0, 2)).toEqual(["old 1", "old 2"]);
  });

  test.each(["limit=0", "limit=101", "limit=x", "cursor=x", "cursor=MS4x%20"])(
    "error: 400 for %s",
    async (query) => {
      const { client } = await signUp(world.baseUrl);
      expect((await client.get(`${EVENTS}?${query}`)).status).toBe(400);
    },
  );
});
