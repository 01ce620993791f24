/** The SDK's event streams against the running service, over connections that break. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createClient } from "../../sdk/client.ts";
import { waitFor } from "../links/payer-side.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let ann: Merchant;
let apiKey: string;
const client = (given: { fetch?: typeof fetch; apiKey?: string } = {}) =>
  createClient({ baseUrl: world.baseUrl, apiKey, ...given });

beforeAll(async () => {
  world = await startApiWorld({ env: { NODE_ENV: "test" } });
  ann = await signUp(world.baseUrl);
  const scopes = ["links:read", "links:write", "webhooks"];
  apiKey = (await ann.client.post("/v1/api-keys", { name: "Shop", scopes })).body.data.key;
}, 120_000);
afterAll(() => world?.stop());

/** Lets `count` events through, and ends. */
function cutAfter(count: number): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let text = "";
  let left = count;
  return new TransformStream({
    transform(chunk, controller) {
      text += decoder.decode(chunk, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0 && left > 0; end = text.indexOf("\n\n")) {
        const message = text.slice(0, end + 2);
        text = text.slice(end + 2);
        controller.enqueue(new TextEncoder().encode(message));
        if (message.includes('"subjectId"')) left -= 1;
      }
      if (left === 0) controller.terminate();
    },
  });
}

test("events.stream yields each event once and continues from its cursor after a lost connection", async () => {
  const positions: (string | null)[] = [];
  // the first connection breaks after one event, the second after two, and so on: within a page, which is sent again
  const breaking = async (url: string | URL | Request, init?: RequestInit) => {
    const answer = await fetch(url, init);
    if (!String(url).endsWith("/stream") || !answer.body) return answer;
    positions.push(new Headers(init?.headers).get("last-event-id"));
    return new Response(answer.body.pipeThrough(cutAfter(positions.length)), answer);
  };
  const { links, events } = client({ fetch: breaking as typeof fetch });
  // an event is listed only when every older transaction of the server has ended, those of other databases too
  const earlier = await links.create({ amount: 1, description: "zero" });
  const cursor = await waitFor("the event of the newest link", async () => {
    const { data, pagination } = await events.page({ limit: 100 });
    return data.at(-1)?.subjectId === earlier.id && (pagination.nextCursor ?? undefined);
  });
  const made: string[] = [];
  for (const description of ["one", "two", "three"])
    made.push((await links.create({ amount: 1, description })).id);
  const got: string[] = [];
  for await (const { event } of events.stream({ cursor })) {
    if (event.type !== "payment_link.created") continue;
    got.push(event.subjectId);
    if (got.length === 3) made.push((await links.create({ amount: 1, description: "four" })).id);
    if (got.length === 4) break;
  }
  expect(got).toEqual(made);
  expect(positions[0]).toBe(cursor);
  expect(positions.length).toBeGreaterThan(2);
  expect(positions.at(-1)).not.toBe(cursor);
});

test("events.stream yields each event once when a long stream breaks within a page", async () => {
  // pages begin at other events than multiples of 50
  const FIRST = 25;
  const { events, links } = client();
  const earlier = await links.create({ amount: 1, description: "before many" });
  const cursor = await waitFor("the event of the newest link", async () => {
    let page = await events.page({ limit: 100 });
    while (page.pagination.hasNextPage)
      page = await events.page({ limit: 100, cursor: page.pagination.nextCursor ?? "" });
    return page.data.at(-1)?.subjectId === earlier.id && (page.pagination.nextCursor ?? undefined);
  });
  const insert = (count: number) => world.sql`
    insert into events (user_id, type, subject_id, data)
    select ${ann.userId}, 'wallet.created', 'many', '{}'
    from generate_series(1, ${count}::int)`;
  let connections = 0;
  const breaking = async (url: string | URL | Request, init?: RequestInit) => {
    const answer = await fetch(url, init);
    connections += 1;
    if (connections > 1 || !answer.body) return answer;
    // within the last page of 50
    return new Response(answer.body.pipeThrough(cutAfter(FIRST + 978)), answer);
  };
  await insert(FIRST);
  const got: string[] = [];
  for await (const { event } of client({ fetch: breaking as typeof fetch }).events.stream({ cursor })) {
    if (event.subjectId !== "many") continue;
    got.push(event.id);
    if (got.length === FIRST) await insert(1_000);
    if (got.length === FIRST + 1_000) break;
  }
  expect(connections).toBe(2);
  expect(new Set(got).size).toBe(FIRST + 1_000);
}, 60_000);

test("error: a key without the scope ends the stream with the refusal", async () => {
  const { body } = await ann.client.post("/v1/api-keys", { name: "Links", scopes: ["links:read"] });
  const { events } = client({ apiKey: body.data.key });
  await expect(events.stream().next()).rejects.toMatchObject({ status: 403, code: "FORBIDDEN" });
});
