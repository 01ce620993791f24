/** Connections to Postgres break again and again while payments run: no process ends, no payment is lost or paid twice. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { assertInvariants } from "../support/invariants.ts";
import {
  type Lab,
  newOrders,
  type Order,
  pay,
  payOut,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { seededRandom } from "../support/seeded-random.ts";

const PAYMENTS = 60;
const CONCURRENCY = 10;
const CUT_EVERY_MS = 80;
/** A payer repeats the same body while it gets a retryable error. */
const ATTEMPTS_MAX = 60;
const NAMES = ["api", "worker", "indexer"] as const;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ keys: 4, env: { PAY_WAIT_MS: "5000" } });
}, 120_000);
afterAll(() => lab?.stop());

/** Ends connections of the service's pools, of all three processes, until `isOver`. */
async function cutAtRandom(isOver: () => boolean): Promise<number> {
  const random = seededRandom("cut connections");
  let cuts = 0;
  while (!isOver()) {
    await Bun.sleep(random() * 2 * CUT_EVERY_MS);
    const rows = await lab.sql`
      select pg_terminate_backend(pid)
      from (
        select pid
        from pg_stat_activity
        where datname = current_database() and application_name = any(${[...NAMES]}::text[])
        order by md5(pid::text || ${random()}::text)
        limit 1
      ) victim`;
    cuts += rows.length;
  }
  return cuts;
}

async function payUntilTaken(order: Order): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const { status, body } = await pay(lab, order);
    if (status !== 500) return status;
    expect(body).toMatchObject({ error: "INTERNAL_ERROR", retryable: true });
  }
  return 0;
}

test(`behavior: ${PAYMENTS} payments are paid once while connections of every process are cut`, async () => {
  const pids = NAMES.map((name) => lab.service.pidOf(name));
  const orders = await newOrders(lab, PAYMENTS);
  let isOver = false;
  const cutting = cutAtRandom(() => isOver);
  const answers: number[] = [];
  let next = 0;
  const payer = async () => {
    for (let order = orders[next++]; order; order = orders[next++]) answers.push(await payUntilTaken(order));
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, payer));
  isOver = true;
  expect(await cutting).toBeGreaterThan(0);
  expect(answers.filter((status) => ![200, 202, 409].includes(status))).toEqual([]);
  await payOut(lab, orders);
  for (const { linkId } of orders) await waitForLink(lab, linkId, "PAID");
  await waitFor(
    "quiet",
    async () => {
      const rows = await lab.sql`select id from relays where state in ('SIGNED', 'BROADCAST')`;
      return rows.length === 0;
    },
    45_000,
  );
  await assertInvariants(lab.sql, lab.chain);
  expect(NAMES.map((name) => lab.service.pidOf(name))).toEqual(pids);
}, 120_000);
