import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { freeze } from "../support/freeze.ts";
import { openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type MerchantWorld, startMerchantWorld } from "./merchant-world.ts";
import { waitFor } from "./payer-side.ts";
import { randomHash } from "./payers.ts";

let world: MerchantWorld;
let ann: Merchant;

beforeAll(async () => {
  // the client address comes from a trusted proxy, so that one test can be many clients
  world = await startMerchantWorld({ env: { RATE_LIMITS: "1", TRUSTED_PROXIES: "127.0.0.1,::1" } });
  ann = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

async function makeLink(): Promise<string> {
  const { body } = await ann.client.post("/v1/payment-links", { amount: 1, description: "d" });
  return body.id;
}

function claim(linkId: string, from: string, transactionHash = randomHash()) {
  return openClient(world.baseUrl).post(
    `/api/v1/public/payment-links/${linkId}/complete`,
    { transactionHash, clientWalletAddress: `0x${"ab".repeat(20)}` },
    { "x-forwarded-for": from },
  );
}

test("five claims per hour of one link from one address, then 429; other links and addresses are not affected", async () => {
  const [link, otherLink] = [await makeLink(), await makeLink()];
  const known = randomHash();
  expect((await claim(link, "203.0.113.1", known)).status).toBe(200);
  for (let n = 0; n < 4; n++) expect((await claim(link, "203.0.113.1")).status).toBe(200);
  const refused = await claim(link, "203.0.113.1");
  expect([refused.status, refused.body.error.code]).toEqual([429, "RATE_LIMITED"]);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(3_000);
  // a repeated claim is not counted
  expect((await claim(link, "203.0.113.1", known)).status).toBe(200);
  expect((await claim(otherLink, "203.0.113.1")).status).toBe(200);
  expect((await claim(link, "203.0.113.2")).status).toBe(200);
  const rows = await world.sql`select 1 from claims where link_id = ${link}`;
  expect(rows.length).toBe(6);
});

test("ten calls per minute from one address, whatever the link", async () => {
  const statuses: number[] = [];
  for (let n = 0; n < 12; n++)
    statuses.push((await claim("link_AAAAAAAAAAAAAAAAAAAAAA", "203.0.113.9")).status);
  expect(statuses).toEqual([...Array(10).fill(404), 429, 429]);
});

test("twenty streams of one address, then 429; other addresses are not affected, and a closed stream frees its slot", async () => {
  const link = await makeLink();
  const open = async (from: string) => {
    const stop = new AbortController();
    const response = await fetch(`${world.baseUrl}/api/v1/public/payment-links/${link}/events`, {
      headers: { "x-forwarded-for": from },
      signal: stop.signal,
    });
    const { status, headers } = response;
    // kept referenced: garbage-collecting an unread response closes its connection
    return { status, retryAfter: headers.get("retry-after"), close: () => stop.abort(), response };
  };
  const streams = await Promise.all(Array.from({ length: 20 }, () => open("203.0.113.30")));
  try {
    expect(streams.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(await open("203.0.113.30")).toMatchObject({ status: 429, retryAfter: "5" });
    const other = await open("203.0.113.31");
    expect(other.status).toBe(200);
    other.close();
    streams[0]?.close();
    await waitFor("room", async () => {
      const next = await open("203.0.113.30");
      streams.push(next);
      return next.status === 200;
    });
  } finally {
    for (const { close } of streams) close();
  }
}, 120_000);

test("clients that disconnect before the response hold no stream", async () => {
  const link = await makeLink();
  const { hostname, port } = new URL(world.baseUrl);
  const path = `/api/v1/public/payment-links/${link}/events`;
  const request = `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nX-Forwarded-For: 203.0.113.40\r\n\r\n`;
  for (let n = 0; n < 40; n++) {
    const socket = connect({ host: hostname, port: Number(port) });
    await new Promise((resolve) => socket.write(request, resolve));
    // some immediately, some during the link look-up, some after the stream has begun
    if (n % 3 > 0) await Bun.sleep(n % 7);
    socket.resetAndDestroy();
  }
  await waitFor("their places", async () => {
    const stop = new AbortController();
    const opened = await Promise.all(
      Array.from({ length: 20 }, () =>
        fetch(`${world.baseUrl}${path}`, {
          headers: { "x-forwarded-for": "203.0.113.40" },
          signal: stop.signal,
        }),
      ),
    );
    stop.abort();
    if (opened.every(({ status }) => status === 200)) return true;
    // each look-up counts against the address's 240 a minute
    await Bun.sleep(500);
    return false;
  });
}, 120_000);

test("a chain that does not respond refuses no claim", async () => {
  const [link] = [await makeLink(), await makeLink()];
  await freeze(world.chain.pid);
  try {
    // the chain goes on only after this answer
    const { status, body } = await claim(link, "203.0.113.20");
    // between links of one price it decides nothing: the transaction may already be mined
    expect([status, body.status, body.proofRequired]).toEqual([200, "ACTIVE", true]);
  } finally {
    process.kill(world.chain.pid, "SIGCONT");
  }
}, 120_000);
