import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { z } from "zod";
import { findFreePort } from "../../local/free-port.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { expand } from "../support/openapi-document.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { begins, isSigned, type Receiver, startReceiver } from "./receiver.ts";

let world: MerchantWorld;
let ann: Merchant;
let receiver: Receiver;

beforeAll(async () => {
  world = await startMerchantWorld({ processes: ["api", "worker"], env: { WEBHOOK_PRIVATE_TARGETS: "1" } });
}, 120_000);
afterAll(() => world?.stop());
beforeEach(async () => {
  ann = await signUp(world.baseUrl);
  receiver = startReceiver();
});
afterEach(async () => {
  await receiver.stop();
  await world.startMissing();
});

type Endpoint = { id: string; secret: string };

async function addEndpoint(body: Record<string, unknown> = {}): Promise<Endpoint> {
  // the worker also creates events, of the wallet's deployment
  const eventTypes = ["payment_link.created", "payment_link.cancelled"];
  const answer = await ann.client.post("/v1/webhook-endpoints", { url: receiver.url, eventTypes, ...body });
  expect(answer.status).toBe(201);
  return answer.body.data;
}

/** One event of a simple kind. */
async function makeEvent(): Promise<string> {
  const { body } = await ann.client.post("/v1/payment-links", { amount: 1.5, description: "d" });
  return body.id;
}

/** Every attempt at the newest delivery: an attempt's result stays here when a retry follows by itself. */
async function attemptsOf(endpoint: Endpoint): Promise<{ status: number | null; error: string | null }[]> {
  const [delivery] = await deliveriesOf(endpoint);
  if (!delivery) return [];
  return (await ann.client.get(`/v1/webhook-deliveries/${delivery.id}`)).body.data.attemptLog;
}

const deliveriesOf = async (endpoint: Endpoint) =>
  (await ann.client.get(`/v1/webhook-endpoints/${endpoint.id}/deliveries`)).body.data as {
    id: string;
    eventId: string;
    state: string;
    attempts: number;
    lastStatus: number | null;
    lastError: string | null;
  }[];

/** Makes the next attempt due. Deliveries in flight or attempted since are left alone. */
async function makeDue(endpoint: Endpoint, attempts?: number): Promise<void> {
  await world.sql`
    update webhook_deliveries set next_try_at = now()
    where endpoint_id = ${endpoint.id} and state = 'PENDING' and lease_until is null
      and attempts = coalesce(${attempts ?? null}::int, attempts)`;
  await world.sql`select graphile_worker.add_job('deliver_webhooks', '{}'::json)`;
}

/** Each attempt that is not the wanted one makes the next one due: a retry that came by itself may have been in flight. */
async function retryUntil(what: string, endpoint: Endpoint, isWanted: () => Promise<boolean>): Promise<void> {
  await waitFor(what, async () => {
    if (await isWanted()) return true;
    await makeDue(endpoint);
    return false;
  });
}

describe("a message", () => {
  test("is signed, contains the event, and is logged as delivered", async () => {
    const endpoint = await addEndpoint();
    expect(endpoint.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const linkId = await makeEvent();
    const message = await waitFor("a message", async () => receiver.received[0]);
    expect(isSigned(message, endpoint.secret)).toBe(true);
    expect(message.json).toEqual({
      type: "payment_link.created",
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      data: {
        ...{ amount: "1.500000", network: "base-sepolia", subjectId: linkId },
        link: (await ann.client.get(`/v1/payment-links/${linkId}`)).body,
      },
    });
    const served = (await ann.client.get("/openapi-full.json")).body;
    const documented = expand(served.components.schemas.WebhookMessage, served);
    expect(
      z.fromJSONSchema(documented as Parameters<typeof z.fromJSONSchema>[0]).safeParse(message.json).success,
    ).toBe(true);
    expect(message.headers.get("content-type")).toBe("application/json");
    // the log shows an event once no older transaction is running
    await waitFor("the event in the log", async () => {
      const { body: events } = await ann.client.get("/v1/events?limit=100");
      return events.data.some(({ id }: { id: string }) => id === message.id);
    });
    const [delivery] = await waitFor("the log", async () => {
      const log = await deliveriesOf(endpoint);
      return log[0]?.state === "DELIVERED" ? log : undefined;
    });
    expect(delivery).toMatchObject({ eventId: message.id, attempts: 1, lastStatus: 200, lastError: null });
    const { body } = await ann.client.get(`/v1/webhook-deliveries/${delivery?.id}`);
    expect(body.data.attemptLog).toMatchObject([{ number: 1, status: 200, error: null, response: "ok" }]);
  });

  test("is sent for selected types only, and not while disabled", async () => {
    const endpoint = await addEndpoint({ eventTypes: ["payment_link.cancelled"] });
    const linkId = await makeEvent();
    await ann.client.post(`/v1/payment-links/${linkId}/cancel`);
    await waitFor("a message", async () => receiver.received.length > 0);
    expect(receiver.received.map(({ json }) => json.type)).toEqual(["payment_link.cancelled"]);
    await ann.client.patch(`/v1/webhook-endpoints/${endpoint.id}`, { enabled: false });
    await ann.client.post(`/v1/payment-links/${await makeEvent()}/cancel`);
    expect((await deliveriesOf(endpoint)).length).toBe(1);
  });

  test("carries two signatures after a rotation, and one after the old secret's expiry", async () => {
    const endpoint = await addEndpoint();
    const { body } = await ann.client.post(`/v1/webhook-endpoints/${endpoint.id}/rotate-secret`);
    const fresh: string = body.data.secret;
    expect(fresh).not.toBe(endpoint.secret);
    await makeEvent();
    const first = await waitFor("a message", async () => receiver.received[0]);
    expect([isSigned(first, endpoint.secret), isSigned(first, fresh), first.signatures.length]).toEqual([
      true,
      true,
      2,
    ]);
    await world.sql`update webhook_endpoints set old_secret_until = now() where id = ${endpoint.id}`;
    await makeEvent();
    const second = await waitFor("another", async () => receiver.received[1]);
    expect([isSigned(second, endpoint.secret), isSigned(second, fresh), second.signatures.length]).toEqual([
      false,
      true,
      1,
    ]);
  });

  test("exists exactly when its event does", async () => {
    const endpoint = await addEndpoint({ eventTypes: ["payment_link.created", "wallet.created"] });
    await world.sql
      .begin(async (tx) => {
        await tx`insert into events (user_id, type, subject_id, data) values (${ann.userId}, 'wallet.created', 'x', '{}')`;
        throw new Error("roll back");
      })
      .catch(() => undefined);
    await makeEvent();
    await waitFor("a message", async () => receiver.received.length > 0);
    expect((await deliveriesOf(endpoint)).length).toBe(1);
  });
});

describe("a receiver that fails", () => {
  test("gets retries on schedule with the same id, until it succeeds", async () => {
    const endpoint = await addEndpoint();
    let answers = 0;
    receiver.answer(() => (answers++ === 0 ? new Response("broken", { status: 500 }) : new Response("ok")));
    await makeEvent();
    // without intervention: the second attempt comes after five seconds
    await waitFor("the second try", async () => (await deliveriesOf(endpoint))[0]?.state === "DELIVERED");
    const ids = receiver.received.map(({ id }) => id);
    expect(ids.length).toBe(2);
    const [{ waitS } = { waitS: 0 }] = await world.sql<{ waitS: number }[]>`
      select extract(epoch from max(attempt.created_at) - min(attempt.created_at))::float8 as wait_s
      from webhook_attempts attempt
      join webhook_deliveries delivery on delivery.id = attempt.delivery_id
      where delivery.endpoint_id = ${endpoint.id}`;
    expect(waitS).toBeGreaterThan(2);
    expect(new Set(ids).size).toBe(1);
    const [endpointRow] =
      await world.sql`select failing_since from webhook_endpoints where id = ${endpoint.id}`;
    expect(endpointRow?.failingSince).toBeNull();
  }, 120_000);

  test("gets attempts on the published schedule, and after the last one the delivery is FAILED", async () => {
    const endpoint = await addEndpoint();
    receiver.answer(() => new Response(null, { status: 503 }));
    await makeEvent();
    const waits = new Map<number, number>();
    await waitFor("the last attempt", async () => {
      const [row] = await world.sql<{ attempts: number; waitS: number; state: string }[]>`
        select
          delivery.attempts, delivery.state,
          extract(epoch from delivery.next_try_at - attempt.created_at)::float8 as wait_s
        from webhook_deliveries delivery
        join webhook_attempts attempt on attempt.delivery_id = delivery.id and attempt.number = delivery.attempts
        where delivery.endpoint_id = ${endpoint.id} and delivery.lease_until is null`;
      if (!row || row.state === "FAILED") return row?.state;
      // the first time: the test itself makes it due afterwards
      if (!waits.has(row.attempts)) waits.set(row.attempts, Math.ceil(row.waitS / 5) * 5);
      await makeDue(endpoint, row.attempts);
      return false;
    });
    const [ended] = await deliveriesOf(endpoint);
    expect(ended).toMatchObject({ state: "FAILED", attempts: 10 });
    expect([...waits].filter(([attempts]) => attempts > 1)).toEqual([
      [2, 300],
      [3, 1_800],
      [4, 7_200],
      [5, 18_000],
      [6, 36_000],
      [7, 50_400],
      [8, 72_000],
      [9, 86_400],
    ]);
    // sent again manually it starts over, with the same id
    receiver.answer(() => new Response("ok"));
    const [delivery] = await deliveriesOf(endpoint);
    expect((await ann.client.post(`/v1/webhook-deliveries/${delivery?.id}/redeliver`)).status).toBe(202);
    await waitFor("it to be delivered", async () => (await deliveriesOf(endpoint))[0]?.state === "DELIVERED");
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(1);
    const { body } = await ann.client.get(`/v1/webhook-deliveries/${delivery?.id}`);
    expect(body.data.attemptLog.map(({ number }: { number: number }) => number)).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
    ]);
  }, 120_000);

  test("with a redirect is not followed", async () => {
    const endpoint = await addEndpoint();
    const other = startReceiver();
    receiver.answer(() => Response.redirect(other.url, 307));
    await makeEvent();
    await waitFor("a try", async () => (await deliveriesOf(endpoint))[0]?.lastStatus === 307);
    expect((await deliveriesOf(endpoint))[0]).toMatchObject({ state: "PENDING", lastError: "answered 307" });
    expect(other.received).toEqual([]);
    await other.stop();
  });

  test("that is down gets all messages when it is up again", async () => {
    await receiver.stop();
    // one that nobody else is given while the receiver is down
    const port = await findFreePort();
    receiver = startReceiver(port);
    const endpoint = await addEndpoint();
    await receiver.stop();
    const linkIds = [await makeEvent(), await makeEvent(), await makeEvent()];
    await waitFor(
      "tries",
      async () => (await deliveriesOf(endpoint)).filter(({ lastError }) => lastError).length === 3,
    );
    expect((await deliveriesOf(endpoint))[0]?.lastError).toContain("could not be reached");
    receiver = startReceiver(port);
    await retryUntil("all of them", endpoint, async () => receiver.received.length === 3);
    expect(new Set(receiver.received.map(({ json }) => json.data.subjectId))).toEqual(new Set(linkIds));
  }, 120_000);

  test("is disabled immediately by a 410, and after three days without a success", async () => {
    const endpoint = await addEndpoint();
    receiver.answer(() => new Response(null, { status: 410 }));
    await makeEvent();
    const stateOf = async () => (await ann.client.get(`/v1/webhook-endpoints/${endpoint.id}`)).body.data;
    await waitFor("it to be disabled", async () => !(await stateOf()).enabled);
    expect((await stateOf()).disabledReason).toBe("gone");
    receiver.answer(() => new Response(null, { status: 500 }));
    await ann.client.patch(`/v1/webhook-endpoints/${endpoint.id}`, { enabled: true });
    expect(await stateOf()).toMatchObject({ enabled: true, disabledReason: null });
    await makeDue(endpoint);
    await waitFor("a failure", async () => (await deliveriesOf(endpoint))[0]?.lastStatus === 500);
    expect((await stateOf()).enabled).toBe(true);
    await world.sql`update webhook_endpoints set failing_since = now() - interval '72 hours 1 second' where id = ${endpoint.id}`;
    await makeDue(endpoint);
    await waitFor("it to be disabled again", async () => !(await stateOf()).enabled);
    expect((await stateOf()).disabledReason).toBe("failing");
    // held-back messages are sent when it is enabled
    receiver.answer(() => new Response("ok"));
    await world.sql`update webhook_deliveries set next_try_at = now() where endpoint_id = ${endpoint.id}`;
    await ann.client.patch(`/v1/webhook-endpoints/${endpoint.id}`, { enabled: true });
    await waitFor("it to be delivered", async () => (await deliveriesOf(endpoint))[0]?.state === "DELIVERED");
  }, 120_000);

  test("that sends 1xx responses first is judged by its final response", async () => {
    const hints = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    const answers = [
      `${hints}HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n`,
      `${hints}HTTP/1.1 204 Done\r\n\r\n`,
    ];
    let next = 0;
    const talkative = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: { data: (socket, piece) => void (begins(piece) && socket.write(answers[next++] ?? "")) },
    });
    const endpoint = await addEndpoint({ url: `http://127.0.0.1:${talkative.port}/` });
    await makeEvent();
    const isDelivered = async () => (await deliveriesOf(endpoint))[0]?.state === "DELIVERED";
    await retryUntil("an answer", endpoint, isDelivered);
    expect((await attemptsOf(endpoint)).map(({ status }) => status)).toEqual([500, 204]);
    talkative.stop(true);
  }, 120_000);

  test("whose body never ends has answered; one whose headers never end has not", async () => {
    let beginning = "HTTP/1.1 500 Oh\r\nContent-Type: text/plain\r\n";
    const drops = new Set<ReturnType<typeof setInterval>>();
    const dripping = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket, piece) {
          if (!begins(piece)) return;
          socket.write(beginning);
          drops.add(setInterval(() => void socket.write("a"), 100));
        },
      },
    });
    const endpoint = await addEndpoint({ url: `http://127.0.0.1:${dripping.port}/` });
    await makeEvent();
    await waitFor("a failure", async () => (await deliveriesOf(endpoint))[0]?.lastError);
    expect((await deliveriesOf(endpoint))[0]).toMatchObject({
      state: "PENDING",
      lastStatus: null,
      lastError: "no answer within 10 seconds",
    });
    beginning = "HTTP/1.1 200 OK\r\n\r\n";
    const isDelivered = async () => (await deliveriesOf(endpoint))[0]?.state === "DELIVERED";
    await retryUntil("an answer", endpoint, isDelivered);
    expect((await deliveriesOf(endpoint))[0]).toMatchObject({ lastStatus: 200, lastError: null });
    for (const drop of drops) clearInterval(drop);
    dripping.stop(true);
  }, 120_000);

  test("with invalid, endless or truncated responses fails with a reason", async () => {
    const endless = `HTTP/1.1 200 OK\r\n\r\n${"x".repeat(100_000)}`;
    const answers = ["hello\r\n\r\n", endless, "HTTP/1.1 200 OK\r\nContent-Type: te", ""];
    let next = 0;
    const odd = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data: (socket, piece) => void (begins(piece) && socket.end(answers[next++] ?? "")),
      },
    });
    const endpoint = await addEndpoint({ url: `http://127.0.0.1:${odd.port}/` });
    await makeEvent();
    const isDelivered = async () => (await deliveriesOf(endpoint))[0]?.state === "DELIVERED";
    await retryUntil("endless", endpoint, isDelivered);
    expect(await attemptsOf(endpoint)).toMatchObject([
      { error: "the receiver did not answer in HTTP" },
      { status: 200, error: null },
    ]);
    await makeEvent();
    await retryUntil("both", endpoint, async () => (await attemptsOf(endpoint)).length >= 2);
    expect((await attemptsOf(endpoint)).slice(0, 2)).toMatchObject([
      { error: expect.stringContaining("within its answer") },
      { error: expect.stringContaining("without an answer") },
    ]);
    odd.stop(true);
  }, 120_000);
});

describe("many messages", () => {
  test("all arrive, two at a time, even if the worker is killed", async () => {
    const endpoint = await addEndpoint({ eventTypes: ["wallet.created"] });
    receiver.answer(async () => {
      await Bun.sleep(5);
      return new Response("ok");
    });
    const count = 150;
    const subjects = Array.from({ length: count }, (_, n) => `many-${n}`);
    for (const subject of subjects)
      await world.sql`insert into events (user_id, type, subject_id, data) values (${ann.userId}, 'wallet.created', ${subject}, '{}')`;
    await waitFor("some", async () => receiver.received.length > 20);
    await world.kill("worker");
    await world.start("worker");
    // deliveries of the dead worker are retried when their lease expires
    await world.sql`
      update webhook_deliveries set lease_until = now(), next_try_at = now() - interval '1 minute'
      where endpoint_id = ${endpoint.id} and state = 'PENDING'`;
    await world.sql`select graphile_worker.add_job('housekeeping', '{}'::json)`;
    await waitFor(
      "all",
      async () => new Set(receiver.received.map(({ json }) => json.data.subjectId)).size === count,
    );
    expect(receiver.inFlight().most).toBeLessThanOrEqual(4);
    const rows = await waitFor("the log", async () => {
      const states = await world.sql<{ n: bigint }[]>`
        select count(*) as n from webhook_deliveries where endpoint_id = ${endpoint.id} and state = 'DELIVERED'`;
      return states[0]?.n === BigInt(count) ? states : undefined;
    });
    expect(rows.length).toBe(1);
  }, 120_000);
});
