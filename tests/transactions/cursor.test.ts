/** The pages of `GET /v1/transactions` behind a cursor, and `GET /v1/transactions/summary`. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { insertHistory } from "./history.ts";

const PATH = "/v1/transactions";
let world: ApiWorld;
let ann: Merchant;
let bob: Merchant;

/** Ids, newest first. */
const order: string[] = [];

beforeAll(async () => {
  world = await startApiWorld();
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
  const types = ["RECEIVE", "SEND", "PAYMENT_LINK"] as const;
  const statuses = ["CONFIRMED", "PENDING", "DETECTED"] as const;
  const ids = await insertHistory(
    world.sql,
    ann.userId,
    Array.from({ length: 11 }, (_, n) => ({
      ...{ type: types[n % 3] ?? "SEND", status: statuses[n % 4] ?? "FAILED", description: `Wood ${n}` },
      ...{ amountUnits: BigInt(n + 1) * 1_000_000n, detectedAt: `2026-01-01T00:00:00.00000${n % 9}Z` },
    })),
  );
  const rows = ids.map((id, n) => ({ id, micros: n % 9 }));
  rows.sort((a, b) => b.micros - a.micros || (a.id < b.id ? 1 : -1));
  order.push(...rows.map(({ id }) => id));
}, 120_000);
afterAll(() => world?.stop());

describe("cursor", () => {
  /** Pages of `limit` rows until there is no cursor. */
  async function follow(query: string, limit: number) {
    const ids: string[] = [];
    let cursor: string | null = "";
    for (let page = 0; cursor !== null && page < 20; page++) {
      const at: string = cursor ? `&cursor=${cursor}` : "";
      const { status, body, text } = await ann.client.get(`${PATH}?limit=${limit}&${query}${at}`);
      if (status !== 200) throw new Error(text);
      ids.push(...body.data.transactions.map(({ id }: { id: string }) => id));
      cursor = body.data.nextCursor;
      expect(body.data.pagination.hasMore).toBe(cursor !== null);
    }
    return ids;
  }

  test.each([
    "",
    "types=RECEIVE,SEND",
    "dateFrom=2026-01-01",
    "amountMin=1",
    "types=RECEIVE,SEND&amountMin=1",
    "statuses=CONFIRMED,PENDING",
    "search=o",
    "search=w&amountMin=1",
  ])("pages of any size make up the list, without a gap or a duplicate: %s", async (query) => {
    const all = await follow(query, 100);
    expect(all.length).toBeGreaterThan(1);
    for (const limit of [1, 2, all.length - 1, all.length, 100])
      if (limit > 0) expect(await follow(query, limit)).toEqual(all);
  });

  test("rows with the same timestamp are distinguished by their ids", async () => {
    const merchant = await signUp(world.baseUrl);
    const at = "2026-02-01T00:00:00.000001Z";
    const ids = await insertHistory(
      world.sql,
      merchant.userId,
      Array.from({ length: 5 }, () => ({ detectedAt: at })),
    );
    const found: string[] = [];
    let path: string | undefined = `${PATH}?limit=2`;
    while (path) {
      const { body } = await merchant.client.get(path);
      found.push(...body.data.transactions.map(({ id }: { id: string }) => id));
      path = body.data.nextCursor ? `${PATH}?limit=2&cursor=${body.data.nextCursor}` : undefined;
    }
    expect(found).toEqual(ids.toSorted().reverse());
  });

  test("error: a cursor of another user, another list or edited, and one with an offset", async () => {
    const { body } = await ann.client.get(`${PATH}?limit=1`);
    const cursor: string = body.data.nextCursor;
    expect((await ann.client.get(`${PATH}?cursor=${cursor}`)).status).toBe(200);
    const edited = `${cursor.slice(0, -2)}${cursor.endsWith("AA") ? "BB" : "AA"}`;
    for (const [client, query, field] of [
      [bob.client, `cursor=${cursor}`, "cursor"],
      [ann.client, `cursor=${edited}`, "cursor"],
      [ann.client, "cursor=x", "cursor"],
      [ann.client, `cursor=${cursor}&offset=1`, "offset"],
    ] as const) {
      const refused = await client.get(`${PATH}?${query}`);
      expect([refused.status, refused.body.error.details.field]).toEqual([400, field]);
    }
    const ofLinks = await ann.client.get(`/v1/payment-links?cursor=${cursor}`);
    expect([ofLinks.status, ofLinks.body.error.details.field]).toEqual([400, "cursor"]);
  });
});

describe("summary", () => {
  const PATH_OF_SUMS = `${PATH}/summary`;

  test("sums the list's rows by type and status, and omits those without any", async () => {
    const merchant = await signUp(world.baseUrl);
    expect((await merchant.client.get(PATH_OF_SUMS)).body.data).toEqual({
      ...{ summary: [], summaryByNetwork: [], currency: "USDC" },
    });
    await insertHistory(world.sql, merchant.userId, [
      { type: "RECEIVE", amountUnits: 1_500_000n, detectedAt: "2026-03-01T23:59:59.999999Z" },
      { type: "RECEIVE", amountUnits: 1n, detectedAt: "2026-03-02T00:00:00Z", description: "Wood" },
      { type: "RECEIVE", status: "PENDING", amountUnits: 7n, detectedAt: "2026-03-02T12:00:00Z" },
      { type: "SEND", network: "base", amountUnits: 2_000_000n, detectedAt: "2026-03-03T00:00:00Z" },
    ]);
    const summaryOf = async (query: string) =>
      (await merchant.client.get(`${PATH_OF_SUMS}?${query}`)).body.data.summary;
    const [received, sent] = [
      { type: "RECEIVE", status: "CONFIRMED" },
      { type: "SEND", status: "CONFIRMED", count: 1, amount: "2.000000" },
    ];
    const pending = { type: "RECEIVE", status: "PENDING", count: 1, amount: "0.000007" };
    const all = await summaryOf("");
    expect(all).toHaveLength(3);
    expect(all).toContainEqual({ ...received, count: 2, amount: "1.500001" });
    expect(all).toContainEqual(pending);
    expect(all).toContainEqual(sent);
    expect(await summaryOf("dateFrom=2026-03-02&dateTo=2026-03-02&statuses=CONFIRMED")).toEqual([
      { ...received, count: 1, amount: "0.000001" },
    ]);
    expect(await summaryOf("networks=base")).toEqual([sent]);
    expect(await summaryOf("search=wood")).toEqual([{ ...received, count: 1, amount: "0.000001" }]);
    expect(await summaryOf("amountMin=1.500001")).toEqual([sent]);
  });

  test("sums each network's rows apart as well, so that test USDC is not added to real USDC", async () => {
    const merchant = await signUp(world.baseUrl);
    const day = "2026-03-02T12:00:00Z";
    await insertHistory(world.sql, merchant.userId, [
      { network: "base", amountUnits: 3n, detectedAt: day },
      { network: "base", amountUnits: 5n, detectedAt: "2026-03-05T00:00:00Z" },
      { network: "base-sepolia", amountUnits: 70n, detectedAt: day, description: "Wood" },
      { network: "base-sepolia", status: "PENDING", amountUnits: 900n, detectedAt: day },
    ]);
    const received = { type: "RECEIVE", status: "CONFIRMED" };
    const [all, pending] = [
      { ...received, count: 3, amount: "0.000078" },
      { type: "RECEIVE", status: "PENDING", count: 1, amount: "0.000900" },
    ];
    const dataOf = async (query: string) => (await merchant.client.get(`${PATH_OF_SUMS}?${query}`)).body.data;
    const { summary, summaryByNetwork } = await dataOf("");
    expect(summary).toEqual([pending, all]);
    expect(summaryByNetwork).toEqual([
      { network: "base", summary: [{ ...received, count: 2, amount: "0.000008" }] },
      {
        network: "base-sepolia",
        summary: [pending, { ...received, count: 1, amount: "0.000070" }],
      },
    ]);
    const ofTest = [{ network: "base-sepolia", summary: [{ ...received, count: 1, amount: "0.000070" }] }];
    const ofBoth = [{ network: "base", summary: [{ ...received, count: 1, amount: "0.000003" }] }, ...ofTest];
    const confirmed = "statuses=CONFIRMED";
    expect((await dataOf(`${confirmed}&dateTo=2026-03-02`)).summaryByNetwork).toEqual(ofBoth);
    expect((await dataOf(`${confirmed}&dateTo=2026-03-02T13:00:00Z`)).summaryByNetwork).toEqual(ofBoth);
    expect((await dataOf(`${confirmed}&search=wood`)).summaryByNetwork).toEqual(ofTest);
    expect((await dataOf(`${confirmed}&networks=base-sepolia`)).summaryByNetwork).toEqual(ofTest);
  });

  test("error: 400 for a bad filter, 401 without credentials", async () => {
    const refused = await ann.client.get(`${PATH_OF_SUMS}?types=NOPE`);
    expect([refused.status, refused.body.error.details.field]).toEqual([400, "types"]);
    expect((await openClient(world.baseUrl).get(PATH_OF_SUMS)).status).toBe(401);
  });
});
