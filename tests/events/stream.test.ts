/** A user's events as they happen: from now on, from a cursor on, and only their own. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newUserId } from "../../core/domain/ids.ts";
import { noteReaders } from "../../db/events/event-readers.ts";
import { recordEvents } from "../../db/events/events.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

setDefaultTimeout(120_000);

const STREAM = "/v1/events/stream";
const DEADLINE_MS = 100_000;
const LINK = { amount: 1, description: "Tea" };

type Message = {
  id: string | undefined;
  event: string | undefined;
  data: { type?: string; subjectId?: string };
};
type Reader = { next: () => Promise<Message>; stop: () => Promise<void> };

let world: ApiWorld;
let merchant: Merchant;
let other: Merchant;
beforeAll(async () => {
  world = await startApiWorld();
  merchant = await signUp(world.baseUrl);
  other = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

async function open({ client }: Merchant, lastEventId?: string, query = ""): Promise<Reader> {
  const cookie = [...client.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const headers = { cookie, ...(lastEventId ? { "last-event-id": lastEventId } : {}) };
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const response = await fetch(`${world.baseUrl}${STREAM}${query}`, { headers, signal });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toStartWith("text/event-stream");
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) throw new Error("the stream has no body");
  let buffered = "";
  const next = async (): Promise<Message> => {
    for (;;) {
      const end = buffered.indexOf("\n\n");
      if (end < 0) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the stream ended");
        buffered += value;
        continue;
      }
      const lines = buffered.slice(0, end).split("\n");
      buffered = buffered.slice(end + 2);
      const field = (name: string) =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data");
      if (data !== undefined) return { id: field("id"), event: field("event"), data: JSON.parse(data) };
    }
  };
  return { next, stop: () => reader.cancel() };
}

async function readUntil(stream: Reader | undefined, subjectId: string): Promise<void> {
  while ((await stream?.next())?.data.subjectId !== subjectId);
}

const newLink = async ({ client }: Merchant) =>
  (await client.post("/v1/payment-links", LINK)).body.id as string;

/** An event is given out once every older transaction has ended, also those of other databases of the server. */
async function untilListed({ client }: Merchant, subjectId: string): Promise<void> {
  const deadline = Date.now() + 90_000;
  for (;;) {
    const { body } = await client.get("/v1/events?limit=100");
    if (body.data.some((event: { subjectId: string }) => event.subjectId === subjectId)) return;
    if (Date.now() > deadline) throw new Error(`${subjectId} is not in the event log`);
    await Bun.sleep(50);
  }
}

test("a stream without a cursor begins with what is new, and does not show another user's events", async () => {
  await untilListed(merchant, await newLink(merchant));
  const stream = await open(merchant);
  expect((await stream.next()).event).toBe("open");
  await newLink(other);
  const id = await newLink(merchant);
  const first = await stream.next();
  expect(first.data).toMatchObject({ type: "payment_link.created", subjectId: id });
  expect(first.event).toBeUndefined();
  await stream.stop();
});

test("Last-Event-ID continues after that event, and the id is a cursor of the list", async () => {
  const stream = await open(merchant);
  await stream.next();
  await newLink(merchant);
  const { id: cursor } = await stream.next();
  await stream.stop();
  const missed = [await newLink(merchant), await newLink(merchant)];
  const again = await open(merchant, cursor);
  expect((await again.next()).event).toBe("open");
  for (const id of missed) expect((await again.next()).data.subjectId).toBe(id);
  await again.stop();
  // as implementations of EventSource do that cannot send headers
  const polyfilled = await open(merchant, undefined, `?lastEventId=${cursor}`);
  expect((await polyfilled.next()).event).toBe("open");
  expect((await polyfilled.next()).data.subjectId).toBe(missed[0] ?? "");
  await polyfilled.stop();
  const listed = await merchant.client.get(`/v1/events?cursor=${cursor}`);
  expect(listed.body.data.map((event: { subjectId: string }) => event.subjectId)).toEqual(missed);
});

test("a reader with a cursor of an earlier version, without epoch or digest, continues from the cursor it first gets", async () => {
  const id = await newLink(merchant);
  await untilListed(merchant, id);
  const { body } = await merchant.client.get("/v1/events?limit=100");
  const [epoch, writtenBy, place] = Buffer.from(body.pagination.nextCursor, "base64url")
    .toString()
    .split(".");
  for (const earlier of [`${epoch}.${writtenBy}.${place}`, `${writtenBy}.${place}`]) {
    const cursor = Buffer.from(earlier).toString("base64url");
    const stream = await open(merchant, cursor);
    const opened = await stream.next();
    expect(opened).toMatchObject({ id: cursor, event: "open" });
    await stream.stop();
    const resumed = await open(merchant, opened.id);
    expect((await resumed.next()).event).toBe("open");
    await resumed.stop();
  }
});

test("a new link and its cancellation notify the streams of their merchant", async () => {
  let notified = 0;
  const reading = await signUp(world.baseUrl);
  const { userId, client } = reading;
  const stream = await open(reading);
  expect((await stream.next()).event).toBe("open");
  const listening = await world.sql.listen("outcome", (payload) => {
    if (payload.split(",").includes(userId)) notified += 1;
  });
  const untilNotified = async (times: number) => {
    const deadline = Date.now() + DEADLINE_MS;
    while (notified < times) {
      if (Date.now() > deadline) throw new Error(`notified ${notified} times`);
      await Bun.sleep(20);
    }
  };
  const { id } = (await client.post("/v1/payment-links", LINK)).body;
  await untilNotified(1);
  await client.post(`/v1/payment-links/${id}/cancel`);
  await untilNotified(2);
  await listening.unlisten();
  await stream.stop();
});

test("events of more merchants than one notification can name notify each of them", async () => {
  const users = Array.from({ length: 301 }, () => newUserId());
  const notified = new Set<string>();
  const listening = await world.sql.listen("outcome", (payload) => {
    for (const id of payload.split(",")) notified.add(id);
  });
  await noteReaders(world.sql, crypto.randomUUID(), users);
  await recordEvents(
    world.sql,
    users.map((userId) => ({ userId, type: "payment_link.created" as const, subjectId: "link_many" })),
  );
  const deadline = Date.now() + DEADLINE_MS;
  while (users.some((userId) => !notified.has(userId))) {
    if (Date.now() > deadline) throw new Error(`${notified.size} were notified`);
    await Bun.sleep(20);
  }
  await listening.unlisten();
});

test("events notify only those of their merchants whose events are being read", async () => {
  const [unread, ended, again, read] = Array.from({ length: 4 }, newUserId) as [
    string,
    string,
    string,
    string,
  ];
  const [gone, here] = [crypto.randomUUID(), crypto.randomUUID()];
  await noteReaders(world.sql, gone, [ended, again]);
  await world.sql`update event_readers set until = now() - interval '1 second' where reader = ${gone}`;
  await noteReaders(world.sql, here, [again, read]);
  const notified: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const listening = await world.sql.listen("outcome", (payload) => {
    notified.push(...payload.split(","));
    if (payload.split(",").includes(read)) resolve();
  });
  const about = (userId: string) => ({
    userId,
    type: "payment_link.created" as const,
    subjectId: "link_read",
  });
  await recordEvents(world.sql, [about(unread)]);
  await recordEvents(world.sql, [about(ended)]);
  await recordEvents(world.sql, [about(unread), about(again)]);
  // notifications come in the order of their commits
  await recordEvents(world.sql, [about(read), about(ended)]);
  await promise;
  await listening.unlisten();
  expect([unread, ended, again, read].map((id) => notified.includes(id))).toEqual([false, false, true, true]);
  const left = await world.sql`select from event_readers where reader = ${gone}`;
  expect(left.length).toBe(0);
  await noteReaders(world.sql, crypto.randomUUID(), [ended]);
  expect(await world.sql`select from event_readers where reader = ${here}`).toHaveLength(2);
});

test("a process paused for longer than its rows are valid writes them again", async () => {
  const [reader, userId] = [crypto.randomUUID(), newUserId()];
  await noteReaders(world.sql, reader, [userId]);
  await world.sql`update event_readers set until = now() - interval '1 second' where reader = ${reader}`;
  await noteReaders(world.sql, reader, [userId]);
  const rows = await world.sql<{ isValid: boolean }[]>`
    select until > now() as is_valid from event_readers where reader = ${reader}`;
  expect(rows.map(({ isValid }) => isValid)).toEqual([true]);
});

test("a row of a user whom a process no longer reads is removed, even while others are renewed", async () => {
  const [reader, users] = [crypto.randomUUID(), Array.from({ length: 20 }, newUserId)];
  await noteReaders(world.sql, reader, users);
  await world.sql`update event_readers set until = now() - interval '1 second' where reader = ${reader}`;
  await noteReaders(world.sql, reader, users.slice(0, 1));
  const left = await world.sql<
    { userId: string; isValid: boolean }[]
  >`select user_id, until > now() as is_valid from event_readers where reader = ${reader}`;
  expect([...left]).toEqual([{ userId: users[0] ?? "", isValid: true }]);
});

test("a stream accepts a session, and refuses a malformed cursor", async () => {
  expect((await openClient(world.baseUrl).get(STREAM)).status).toBe(401);
  const refused = await merchant.client.get(STREAM, { "last-event-id": "nonsense" });
  expect([refused.status, refused.body.error.code]).toEqual([400, "VALIDATION_ERROR"]);
});

test("a stream whose session was ended delivers nothing more, and ends", async () => {
  const leaving = await signUp(world.baseUrl);
  const streams = [await open(leaving), await open(merchant)];
  for (const stream of streams) expect((await stream.next()).event).toBe("open");
  expect((await leaving.client.post("/v1/auth/logout", {})).status).toBe(200);
  await recordEvents(
    world.sql,
    [leaving, merchant].map(({ userId }) => ({
      userId,
      type: "payment_link.created" as const,
      subjectId: "link_after",
    })),
  );
  await readUntil(streams[1], "link_after");
  // events of the sign-up may still come until the session ends
  await expect(readUntil(streams[0], "link_after")).rejects.toThrow("the stream ended");
  await streams[1]?.stop();
});

test("the eleventh stream of a user is refused with 429, and one that ends frees its place", async () => {
  const streams = await Promise.all(Array.from({ length: 10 }, () => open(other)));
  const refused = await other.client.get(STREAM);
  expect([refused.status, refused.body.error.code]).toEqual([429, "RATE_LIMITED"]);
  for (const stream of streams) await stream.stop();
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const status = await fetch(`${world.baseUrl}${STREAM}`, {
      headers: { cookie: [...other.client.cookies].map((pair) => pair.join("=")).join("; ") },
    }).then(async (response) => {
      await response.body?.cancel();
      return response.status;
    });
    if (status === 200) break;
    if (Date.now() > deadline) throw new Error(`still ${status}`);
    await Bun.sleep(50);
  }
});
