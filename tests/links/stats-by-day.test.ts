/** What the overview reads: received per day in a zone, and the links that need attention. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { newTransactionId } from "../../core/domain/ids.ts";
import { NETWORK_IDS, type NetworkId } from "../../core/domain/networks.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

setDefaultTimeout(120_000);

let world: ApiWorld;
let merchant: Merchant;
beforeAll(async () => {
  world = await startApiWorld({ networks: NETWORK_IDS });
  merchant = await signUp(world.baseUrl);
}, 120_000);
beforeEach(beginWithinDay);
afterAll(() => world?.stop());

type Day = { date: string; received: string; count: number };

async function addRow(row: {
  type: string;
  status: string;
  units: number;
  at: Date;
  userId?: string;
  network?: NetworkId;
}): Promise<void> {
  await world.sql`
    insert into transactions (id, owner, network, type, status, amount_units, counterparty, detected_at)
    values (${newTransactionId()}, owner_key(${row.userId ?? merchant.userId}), ${row.network ?? "base-sepolia"}, ${row.type}, ${row.status},
      ${row.units}, ${`0x${"1".repeat(40)}`}, ${row.at})`;
}

const readDays = async (query: string): Promise<Day[]> =>
  (await merchant.client.get(`/v1/payment-links/stats?by=day&${query}`)).body.days;

test("confirmed money received counts on its day in the requested zone; nothing else does", async () => {
  const other = await signUp(world.baseUrl);
  const today = new Date().toISOString().slice(0, 10);
  // Kiritimati is 14 hours ahead of UTC: 11:00 UTC is the next day there
  const at = (hour: string) => new Date(`${today}T${hour}:00:00Z`);
  const yesterday = new Date(at("09").getTime() - 86_400_000);
  await addRow({ type: "PAYMENT_LINK", status: "CONFIRMED", units: 2_500_000, at: yesterday });
  await addRow({ type: "RECEIVE", status: "CONFIRMED", units: 1_000_001, at: yesterday });
  await addRow({ type: "SEND", status: "CONFIRMED", units: 9_000_000, at: yesterday });
  await addRow({ type: "RECEIVE", status: "DETECTED", units: 9_000_000, at: yesterday });
  await addRow({
    type: "RECEIVE",
    status: "CONFIRMED",
    units: 9_000_000,
    at: yesterday,
    userId: other.userId,
  });
  const utc = await readDays("days=3");
  expect(utc.map(({ count }) => count)).toEqual([0, 2, 0]);
  expect(utc[1]).toEqual({ date: yesterday.toISOString().slice(0, 10), received: "3.500001", count: 2 });
  const late = new Date(yesterday.getTime() + 2 * 3_600_000);
  await addRow({ type: "RECEIVE", status: "CONFIRMED", units: 4_000_000, at: late });
  const ahead = await readDays("days=30&timeZone=Pacific/Kiritimati");
  const dayOf = (date: string) => ahead.find((day) => day.date === date)?.received;
  expect(dayOf(yesterday.toISOString().slice(0, 10))).toBe("3.500001");
  expect(dayOf(today)).toBe("4.000000");
});

test("a row counts from the first instant of the oldest day on, not before it", async () => {
  const alone = await signUp(world.baseUrl);
  const today = new Date(`${new Date().toISOString().slice(0, 10)}T00:00:00Z`).getTime();
  const first = new Date(today - 4 * 86_400_000);
  await addRow({ type: "RECEIVE", status: "CONFIRMED", units: 1_000_000, at: first, userId: alone.userId });
  await addRow({
    type: "RECEIVE",
    status: "CONFIRMED",
    units: 9_000_000,
    at: new Date(first.getTime() - 1),
    userId: alone.userId,
  });
  const { body } = await alone.client.get("/v1/payment-links/stats?by=day&days=5");
  expect(body.days).toHaveLength(5);
  expect(body.days[0]).toMatchObject({ received: "1.000000", count: 1 });
});

test("each network has its own days, so that test USDC is not added to real USDC", async () => {
  const trader = await signUp(world.baseUrl);
  const row = { status: "CONFIRMED", at: new Date(), userId: trader.userId };
  await addRow({ ...row, type: "RECEIVE", units: 1_000_000, network: "base" });
  await addRow({ ...row, type: "PAYMENT_LINK", units: 2_500_000, network: "base" });
  await addRow({ ...row, type: "SEND", units: 9_000_000, network: "base" });
  await addRow({ ...row, type: "RECEIVE", units: 70_000_000 });
  const { body } = await trader.client.get("/v1/payment-links/stats?by=day&days=2");
  const today = body.days[1].date;
  expect(body.days[1]).toEqual({ date: today, received: "73.500000", count: 3 });
  const ofToday = body.daysByNetwork.map(({ network, days }: { network: string; days: Day[] }) => [
    network,
    ...days.slice(1),
  ]);
  expect(ofToday).toEqual([
    ["base", { date: today, received: "3.500000", count: 2 }],
    ["base-sepolia", { date: today, received: "70.000000", count: 1 }],
  ]);
  expect(body.daysByNetwork[0].days[0]).toMatchObject({ received: "0.000000", count: 0 });
});

test("without by=day the answer has no days; 1 and 90 days are returned, 0, 91 and an unknown zone are refused", async () => {
  const get = (query: string) => merchant.client.get(`/v1/payment-links/stats${query}`);
  expect((await get("")).body).not.toHaveProperty("days");
  expect((await readDays("days=1")).length).toBe(1);
  expect((await readDays("days=90")).length).toBe(90);
  for (const query of ["?by=day&days=0", "?by=day&days=91", "?by=day&timeZone=Mars/Olympus", "?by=week"])
    expect((await get(query)).status).toBe(400);
});

test("an offset is refused rather than misinterpreted; a zone is one that the files have, known to the database or not", async () => {
  for (const zone of ["+05:30", "-08", "+0530", "posix/Europe/Berlin"]) {
    const { status, body } = await merchant.client.get(
      `/v1/payment-links/stats?by=day&timeZone=${encodeURIComponent(zone)}`,
    );
    expect([zone, status, body.error?.code]).toEqual([zone, 400, "VALIDATION_ERROR"]);
  }
  for (const zone of ["Etc/GMT-14", "EST5EDT", "europe/berlin", "US/Pacific-New"])
    expect(await readDays(`days=1&timeZone=${zone}`)).toHaveLength(1);
});

test("exception=any lists the links with an exception, page by page, and counts them", async () => {
  const { client, userId } = await signUp(world.baseUrl);
  const ids: string[] = [];
  for (const amount of [1, 2, 3, 4])
    ids.push((await client.post("/v1/payment-links", { amount, description: "Tea" })).body.id);
  const [plain = "", ...special] = ids;
  await world.sql`update payment_links set exception = 'UNDERPAID' where id = any(${special}) and user_id = ${userId}`;
  const first = await client.get("/v1/payment-links?exception=any&limit=2");
  expect(first.body.totalCount).toBe(3);
  const second = await client.get(`/v1/payment-links?exception=any&limit=2&cursor=${first.body.nextCursor}`);
  const listed = [...first.body.links, ...second.body.links].map(({ id }: { id: string }) => id);
  expect(listed).toEqual(special.reverse());
  expect(listed).not.toContain(plain);
  expect((await client.get("/v1/payment-links?exception=any&status=PAID")).body.links).toEqual([]);
  expect((await client.get("/v1/payment-links?exception=none")).status).toBe(400);
  expect((await client.get("/v1/payment-links?exception=any&reference=x")).status).toBe(400);
});
