/** SIGTERM under load: behind a balancer that never retries, restarting every API process fails no request. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { judge, payWhile, type Stage } from "../payments/campaign-load.ts";
import { type Balancer, startBalancer } from "../support/balancer.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedLinks, seedMerchant } from "../support/seed.ts";
import { signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

const READERS = 6;
/** Of each reader: some request is under way at each moment, and the machine is not saturated. */
const READ_EVERY_MS = 5;
const NAMES = ["api", "api-2"] as const;
/** Longer than the balancer waits for an answer of a busy server. */
const DRAIN_S = "5";

let world: World;
let stage: Stage;
let balancer: Balancer;

beforeAll(async () => {
  world = await startWorld({
    processes: [...NAMES, "worker", "indexer"],
    env: { DRAIN_S, RATE_LIMITS: "0" },
  });
  const merchant = await seedMerchant(world.sql);
  balancer = startBalancer(NAMES.map((name) => world.baseUrlOf(name)));
  stage = { ...world, merchant, baseUrl: () => balancer.url };
  await bothReady();
}, 120_000);

afterAll(async () => {
  await balancer?.stop();
  await world?.stop();
});

const bothReady = () =>
  waitFor("both to be ready", async () => NAMES.every((name) => balancer.isReady(world.baseUrlOf(name))));

test("restarting two API processes one after the other under load fails no request and no payment", async () => {
  let isOver = false;
  const reader = async () => {
    while (!isOver) {
      await (await fetch(`${balancer.url}/v1/networks`)).arrayBuffer();
      await Bun.sleep(READ_EVERY_MS);
    }
  };
  const reading = Promise.all(Array.from({ length: READERS }, reader));
  const paying = payWhile(stage, () => !isOver);
  for (const name of NAMES) {
    await world.restart(name);
    await bothReady();
  }
  isOver = true;
  const [answers] = await Promise.all([paying, reading]);
  expect(balancer.failures).toEqual([]);
  expect(Object.keys(balancer.answers).filter((key) => / 5\d\d$/.test(key))).toEqual([]);
  expect(answers).toMatchObject({ wrong: [], unanswered: 0 });
  const { paid } = await judge(stage, answers.linkIds);
  expect(paid).toBe(answers.linkIds.length);
  expect(paid).toBeGreaterThan(0);
}, 180_000);

test("after SIGTERM a process is not ready, sends connection: close, ends streams and idle connections, and exits", async () => {
  const url = world.baseUrlOf("api-2");
  const [linkId] = await seedLinks(world.sql, stage.merchant, { count: 1, amountUnits: 10_000n });
  const stream = await fetch(`${url}/api/v1/public/payment-links/${linkId}/events`);
  const reading = stream.text();
  const { client } = await signUp(world.baseUrl);
  const cookie = [...client.cookies].map((pair) => pair.join("=")).join("; ");
  const events = await fetch(`${url}/v1/events/stream`, { headers: { cookie } });
  expect(events.status).toBe(200);
  const readingEvents = events.text();
  const idle = connect(Number(new URL(url).port), "localhost");
  const idleClosed = new Promise((resolve) => idle.once("close", resolve));
  idle.write("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await new Promise((resolve) => idle.once("data", resolve));
  expect((await fetch(`${url}/health/live`)).headers.get("connection")).not.toBe("close");

  const ended = world.kill("api-2", "SIGTERM");
  let notReady = await fetch(`${url}/health/ready`);
  await waitFor("not ready", async () => {
    notReady = await fetch(`${url}/health/ready`);
    return notReady.status === 500;
  });
  expect(((await notReady.json()) as { error: object }).error).toMatchObject({
    code: "INTERNAL_ERROR",
    message: "Not ready: stopping",
  });
  const served = await fetch(`${url}/v1/networks`);
  expect([served.status, served.headers.get("connection")]).toEqual([200, "close"]);
  await ended;
  expect(await reading).toContain("event: status");
  expect(await readingEvents).toContain("event: open");
  await idleClosed;
  expect(world.logOf("api-2")).toContain("api-2 ended: 0");
  expect(world.logOf("api-2")).not.toContain("stop step timed out");
}, 120_000);

test("SIGINT stops immediately, without draining", async () => {
  expect(world.logOf("api").match(/not ready; draining/g)).toHaveLength(1);
  await world.kill("api", "SIGINT");
  // its last lines may come after its end
  await waitFor("its reason", async () => world.logOf("api").includes('"reason":"SIGINT"'));
  expect(world.logOf("api").match(/not ready; draining/g)).toHaveLength(1);
}, 120_000);
