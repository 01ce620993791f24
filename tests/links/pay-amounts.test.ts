/** Unique amounts for people who type what they pay. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Payer } from "../support/payer.ts";
import {
  dataOf,
  type EvidenceSide,
  expectReceived,
  linkOf,
  makeLinks,
  makePerson,
  makeTwins,
  nextUnits,
  pay,
  prove,
  startEvidenceSide,
  statusOf,
  waitForLink,
} from "./evidence-side.ts";

setDefaultTimeout(120_000);

const ADDED_MAX = 999n;

let side: EvidenceSide;
let payer: Payer;

beforeAll(async () => {
  side = await startEvidenceSide();
  payer = await makePerson(side);
});
afterAll(() => side?.stop());

async function earnings(): Promise<number> {
  return (await side.ann.client.get("/v1/payment-links/stats")).body.totalEarnings;
}

test("is different for each link of one price, above its amount, and does not end in 0", async () => {
  const units = nextUnits();
  const links = await makeLinks(side, 25, units);
  const rows = await Promise.all(links.map((linkId) => linkOf(side, linkId)));
  const payAmounts = rows.map(({ payAmountUnits }) => payAmountUnits ?? 0n);
  expect(new Set(payAmounts).size).toBe(25);
  for (const payAmount of payAmounts) {
    expect(payAmount > units && payAmount <= units + ADDED_MAX).toBe(true);
    expect(payAmount % 10n).not.toBe(0n);
  }
  const { body } = await dataOf(side, links[0] ?? "");
  expect([body.amount, body.payAmount]).toEqual([Number(units) / 1e6, Number(payAmounts[0]) / 1e6]);
});

test("pays its link among links of one price like the amount itself, and totals count what was received", async () => {
  const { meant, twin } = await makeTwins(side);
  const { payAmountUnits } = await linkOf(side, meant);
  const before = await earnings();
  const hash = await pay(side, payer, { units: payAmountUnits ?? 0n });
  await waitForLink(side, meant, {
    status: "PAID",
    exception: "NONE",
    settledBy: "pay_amount",
    paidUnits: payAmountUnits,
  });
  expect((await dataOf(side, meant)).body).toMatchObject({ settledBy: "pay_amount", exception: "NONE" });
  expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", settledBy: null });
  expect(Math.round(((await earnings()) - before) * 1e6)).toBe(Number(payAmountUnits));
  const { body } = await side.ann.client.get(`/v1/transactions?search=${hash}`);
  expect(body.data.transactions).toMatchObject([
    { type: "PAYMENT_LINK", settledBy: "pay_amount", amount: (Number(payAmountUnits) / 1e6).toFixed(6) },
  ]);
});

test("one micro-USDC more or less pays nothing", async () => {
  const { meant, twin, units } = await makeTwins(side);
  const taken = [await linkOf(side, meant), await linkOf(side, twin)].map(
    ({ payAmountUnits }) => payAmountUnits ?? 0n,
  );
  const beside = [taken[0] ?? 0n, taken[1] ?? 0n]
    .flatMap((payAmount) => [payAmount - 1n, payAmount + 1n])
    .filter((value) => value !== units && !taken.includes(value));
  expect(beside.length).toBeGreaterThan(0);
  for (const value of beside) await expectReceived(side, await pay(side, payer, { units: value }), []);
  expect([await statusOf(side, meant), await statusOf(side, twin)]).toEqual(["ACTIVE", "ACTIVE"]);
});

test("is never an amount of an open link", async () => {
  const units = nextUnits();
  const [above = ""] = await makeLinks(side, 1, units + 999n);
  const [link = ""] = await makeLinks(side, 1, units);
  expect((await linkOf(side, link)).payAmountUnits).toBe(units + 998n);
  // once ended, it releases its amount
  expect((await side.ann.client.post(`/v1/payment-links/${above}/cancel`)).status).toBe(200);
  const [next = ""] = await makeLinks(side, 1, units);
  expect((await linkOf(side, next)).payAmountUnits).toBe(units + 999n);
});

test("that is also the amount of a later link makes both candidates", async () => {
  const [early = ""] = await makeLinks(side, 1);
  const { payAmountUnits } = await linkOf(side, early);
  const [later = ""] = await makeLinks(side, 1, payAmountUnits ?? 0n);
  const hash = await pay(side, payer, { units: payAmountUnits ?? 0n });
  await expectReceived(side, hash, [early, later]);
  expect([await statusOf(side, early), await statusOf(side, later)]).toEqual(["ACTIVE", "ACTIVE"]);
  expect((await prove(side, early, { hash, person: payer })).status).toBe(200);
  await waitForLink(side, early, { status: "PAID", exception: "NONE", settledBy: "proof" });
  expect(await statusOf(side, later)).toBe("ACTIVE");
});

test("after its link has expired: PAID late, while no other link asks for it", async () => {
  const [link = ""] = await makeLinks(side, 1);
  const { payAmountUnits } = await linkOf(side, link);
  await side.sql`update payment_links set expires_at = now() - interval '2 seconds' where id = ${link}`;
  await pay(side, payer, { units: payAmountUnits ?? 0n });
  await waitForLink(side, link, { status: "PAID", exception: "PAID_LATE", settledBy: "pay_amount" });
});

test("is null when all are in use, and the link is still paid by its amount", async () => {
  const units = nextUnits();
  const [holder = ""] = await makeLinks(side, 1);
  await side.sql`
    insert into pay_amounts (network, recipient, units, link_id)
    select 'base-sepolia', ${side.wallet}::bytea, ${units}::bigint + n, ${holder}
    from generate_series(1, 999) n`;
  const [full = ""] = await makeLinks(side, 1, units);
  expect((await dataOf(side, full)).body.payAmount).toBeNull();
  await pay(side, payer, { units });
  await waitForLink(side, full, { status: "PAID", settledBy: "amount" });
  // the last free one is issued
  await side.sql`delete from pay_amounts where recipient = ${side.wallet} and units = ${units}::bigint + 777`;
  const [last = ""] = await makeLinks(side, 1, units);
  expect((await linkOf(side, last)).payAmountUnits).toBe(units + 777n);
  const [none = ""] = await makeLinks(side, 1, units);
  expect((await linkOf(side, none)).payAmountUnits).toBeNull();
});

test("differs for fifty links created concurrently", async () => {
  const units = nextUnits();
  const given = { amount: Number(units) / 1e6, description: "At once" };
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => side.ann.client.post("/v1/payment-links", given)),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(201));
  const rows = await side.sql<{ payAmountUnits: bigint }[]>`
    select pay_amount_units from payment_links where recipient = ${side.wallet} and amount_units = ${units}::bigint`;
  expect(new Set(rows.map(({ payAmountUnits }) => payAmountUnits)).size).toBe(50);
});
