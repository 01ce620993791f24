/** Several relayer keys and two workers at once, under load: every payment once, every key's nonces without a gap. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { assertInvariants } from "../support/invariants.ts";
import {
  type Lab,
  newOrders,
  pay,
  payOut,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";

const PAYMENTS = 150;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({
    keys: 4,
    env: { RELAY_BATCH_MAX: "3" },
    processes: ["api", "api-2", "worker", "worker-2", "indexer"],
  });
}, 120_000);

afterAll(() => lab?.stop());

test(`behavior: ${PAYMENTS} concurrent payments over four keys and two workers`, async () => {
  const orders = await newOrders(lab, PAYMENTS);
  const answers = await Promise.all(
    orders.map((order, index) => pay(lab, order, index % 2 === 0 ? "api" : "api-2")),
  );
  // one that is not signed in its time on a busy machine ends as retryable, and is paid when it is shown again
  expect(answers.filter(({ status, body }) => status > 202 && !body.retryable)).toEqual([]);
  await payOut(lab, orders);
  for (const { linkId } of orders) await waitForLink(lab, linkId, "PAID");
  const relays = await waitFor("all relays to be mined", async () => {
    const rows = await relaysOf(lab);
    return rows.every((relay) => relay.succeeded) && rows;
  });
  expect(new Set(relays.map((relay) => relay.relayer)).size).toBeGreaterThan(1);
  const signers = ["worker", "worker-2"] as const;
  for (const name of signers) expect(lab.service.logOf(name)).toContain("relaying payments");
  await assertInvariants(lab.sql, lab.chain);
}, 120_000);

test("behavior: no transaction carries more than it may", async () => {
  const [row] = await lab.sql<{ most: number }[]>`
    select max(count)::int as most
    from (select count(*) from payments where relay_id is not null group by relay_id) sizes`;
  expect(row?.most).toBeLessThanOrEqual(3);
});
