/** The event log over HTTP: every event once, in the order it was written, from any cursor. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { recordEvents } from "../../db/events/events.ts";
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

test("the stream refuses a cursor in its query, and says where it belongs", async () => {
  const { client } = await signUp(world.baseUrl);
  const { body: page } = await client.get(EVENTS);
  const { status, body } = await client.get(`${EVENTS}/stream?cursor=${page.pagination.nextCursor}`);
  expect(status).toBe(400);
  expect(body.error.details.field).toBe("cursor");
  expect(body.error.message).toContain("Last-Event-ID");
});

describe("GET /v1/events", () => {
  test("carries the whole link and the whole transaction, as they are now", async () => {
    const merchant = await signUp(world.baseUrl);
    const { client, userId } = merchant;
    const order = { reference: "INV-7", metadata: { table: "4" } };
    const { body: made } = await client.post("/v1/payment-links", { amount: 2, description: "d", ...order });
    await world.sql`
      insert into transactions (id, owner, type, status, amount_units, network, counterparty, description, detected_at)
      values (${`txn_${made.id}`}, owner_key(${userId}), 'RECEIVE', 'PENDING', 5, 'base-sepolia', ${`0x${"11".repeat(20)}`}, '', now())`;
    await recordEvents(world.sql, [
      { userId, type: "transaction.detected", subjectId: `txn_${made.id}`, data: { amount: "0.000005" } },
      { userId, type: "refund.created", subjectId: "rfd_1", data: { linkId: made.id } },
    ]);
    await client.post(`/v1/payment-links/${made.id}/cancel`);
    await waitForLog(merchant);
    const events: { type: string; data: Record<string, unknown> }[] = (
      await client.get(`${EVENTS}?limit=100`)
    ).body.data;
    const link = (await client.get(`/v1/payment-links/${made.id}`)).body;
    expect(link).toMatchObject({ status: "CANCELLED", ...order });
    const [transaction] = (await client.get("/v1/transactions")).body.data.transactions;
    const dataOf = (type: string) => events.find((event) => event.type === type)?.data;
    expect(dataOf("payment_link.created")).toEqual({
      amount: "2.000000",
      network: "base-sepolia",
      ...order,
      link,
    });
    expect(dataOf("refund.created")).toEqual({ linkId: made.id, link });
    expect(dataOf("transaction.detected")).toEqual({ amount: "0.000005", transaction });
    expect(transaction).toMatchObject({ id: `txn_${made.id}`, amount: "0.000005" });
  });

  test("never shows another user's link or transaction, whatever an event names", async () => {
    const [merchant, other] = [await signUp(world.baseUrl), await signUp(world.baseUrl)];
    const { body: others } = await other.client.post("/v1/payment-links", {
      amount: 3,
      description: "private",
    });
    const named = { userId: merchant.userId, subjectId: others.id };
    await recordEvents(world.sql, [{ ...named, type: "payment_link.expired" }]);
    await waitForLog(merchant);
    const { body } = await merchant.client.get(`${EVENTS}?limit=100`);
    const event = body.data.find(({ type }: { type: string }) => type === "payment_link.expired");
    expect(event).toMatchObject({ subjectId: others.id, data: {} });
    expect(event.data.link).toBeUndefined();
  });

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
