/** The API's connection breaks at commit: the payer never gets a failure for a payment that is stored, and pays once. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase } from "../../db/postgres/client.ts";
import { type CommitCutter, startCommitCutter } from "../support/commit-cutter.ts";
import { roundsOf } from "../support/depth.ts";
import { assertInvariants } from "../support/invariants.ts";
import { type Lab, newOrders, pay, payOut, startLab, waitFor, waitForLink } from "../support/relay-lab.ts";
import { seededRandom } from "../support/seeded-random.ts";

const PAYMENTS = roundsOf({ few: 60, many: 120 });
const CONCURRENCY = 12;
const CUT_SHARE = 0.3;
let lab: Lab;
let cutter: CommitCutter;

beforeAll(async () => {
  const random = seededRandom("cut commits");
  lab = await startLab({
    keys: 4,
    way: (url) => {
      cutter = startCommitCutter(url, "api payments", random);
      return cutter.url;
    },
  });
}, 120_000);

afterAll(async () => {
  await lab?.stop();
  cutter?.stop();
});

test(`behavior: ${PAYMENTS} payments succeed and are paid once while three in ten commits lose their connection`, async () => {
  const orders = await newOrders(lab, PAYMENTS);
  cutter.share = CUT_SHARE;
  const answers: { status: number; linkId: string }[] = [];
  let next = 0;
  const payer = async () => {
    for (let order = orders[next++]; order; order = orders[next++]) {
      const { status } = await pay(lab, order);
      answers.push({ status, linkId: order.linkId });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, payer));
  cutter.share = 0;
  expect(cutter.cuts.before).toBeGreaterThan(0);
  expect(cutter.cuts.after).toBeGreaterThan(0);
  expect(answers.filter(({ status }) => status !== 200 && status !== 202)).toEqual([]);
  await payOut(lab, orders);
  for (const { linkId } of orders) await waitForLink(lab, linkId, "PAID");
  const sql = openDatabase(lab.db.url, { name: "judge", maxConnections: 1 });
  await waitFor("quiet", async () => {
    const rows = await sql`select id from relays where state in ('SIGNED', 'BROADCAST')`;
    return rows.length === 0;
  });
  await assertInvariants(sql, lab.chain);
  await sql.end();
}, 120_000);
