import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type GivenRow, insertHistory } from "./history.ts";

let world: ApiWorld;
let ann: Merchant;
let bob: Merchant;
const HASH: Hex = `0xabcdef${"12".repeat(29)}`;

/** Oldest first. Every row differs in one filtered field. */
const ROWS: (GivenRow & { name: string })[] = [
  { name: "old", detectedAt: "2025-12-31T23:59:59.999Z", amountUnits: 1n, description: "Old order" },
  { name: "newyear", detectedAt: "2026-01-01T00:00:00.000Z", amountUnits: 10_000_000n, type: "SEND" },
  {
    name: "micro",
    detectedAt: "2026-01-01T12:00:00.123456Z",
    amountUnits: 10_000_001n,
    type: "PAYMENT_LINK",
    description: "100% Wolle_a\\b",
  },
  {
    name: "midnight",
    detectedAt: "2026-01-01T23:59:59.999999Z",
    amountUnits: 9_999_999n,
    type: "PAYMENT_LINK",
    description: "1000 Wolle",
  },
  {
    name: "base",
    detectedAt: "2026-01-02T00:00:00Z",
    network: "base",
    amountUnits: 25_000_000n,
    status: "FAILED",
  },
  { name: "hash", detectedAt: "2026-01-03T08:00:00Z", txHash: HASH, amountUnits: 123_456_789_012n },
  {
    name: "pending",
    detectedAt: "2026-01-04T08:00:00Z",
    status: "PENDING",
    txHash: null,
    blockNumber: null,
    type: "PAYMENT_LINK",
    description: "Ünïcödé 注文 <b>",
  },
  {
    name: "detected",
    detectedAt: "2026-01-05T08:00:00Z",
    status: "DETECTED",
    description: "mentions 0xabcdef in words",
  },
  { name: "orphan", detectedAt: "2026-01-06T08:00:00Z", status: "ORPHANED", type: "SEND", network: "base" },
];
let nameOf: Map<string, string>;

beforeAll(async () => {
  world = await startApiWorld();
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
  const ids = await insertHistory(world.sql, ann.userId, ROWS);
  nameOf = new Map(ids.map((id, index) => [id, ROWS[index]?.name ?? ""]));
  await insertHistory(world.sql, bob.userId, [{ description: "Bob's", txHash: HASH }]);
}, 120_000);
afterAll(() => world?.stop());

const PATH = "/v1/transactions";

/** Names of the rows of a query, oldest first, after checking the total. */
async function namesOf(query: string): Promise<string[]> {
  const { status, body, text } = await ann.client.get(`${PATH}?limit=100${query ? `&${query}` : ""}`);
  if (status !== 200) throw new Error(`${query}: ${status} ${text}`);
  const found: { id: string }[] = body.data.transactions;
  expect(body.data.pagination).toEqual({ total: found.length, limit: 100, offset: 0, hasMore: false });
  return found.map(({ id }) => nameOf.get(id) ?? "somebody else's").reverse();
}

const ALL = ROWS.map(({ name }) => name);

describe("the response", () => {
  test("has the documented fields", async () => {
    const { body, headers } = await ann.client.get(`${PATH}?search=${HASH}`);
    expect(body.success).toBe(true);
    expect(typeof body.message).toBe("string");
    expect(headers.get("x-api-version")).toBe("v1");
    expect(body.data.transactions[0]).toEqual({
      id: expect.stringMatching(/^txn_/),
      type: "RECEIVE",
      amount: "123456.789012",
      ...{ currency: "USDC", network: "base-sepolia", status: "CONFIRMED" },
      title: "Received from 0xabab…abab",
      description: "",
      clientWalletAddress: `0x${"ab".repeat(20)}`,
      transactionHash: HASH,
      blockNumber: 100,
      confirmedAt: "2026-01-03T08:00:00.000Z",
      detectedAt: "2026-01-03T08:00:00.000Z",
      ...{ settledBy: null, candidates: [] },
      metadata: { txHash: HASH, logIndex: 0, linkId: null, paymentId: null },
    });
  });

  test("has human-readable titles", async () => {
    const { body } = await ann.client.get(PATH);
    const titles = new Map(
      body.data.transactions.map((row: { id: string; title: string }) => [nameOf.get(row.id), row.title]),
    );
    expect(titles.get("newyear")).toBe("Sent to 0xabab…abab");
    expect(titles.get("midnight")).toBe("Payment for 1000 Wolle");
  });

  test("is newest first, with 50 rows by default", async () => {
    expect(await namesOf("")).toEqual(ALL);
    expect((await ann.client.get(PATH)).body.data.pagination).toEqual({
      total: 9,
      limit: 50,
      offset: 0,
      hasMore: false,
    });
  });

  test("error: 401 without a session", async () => {
    expect((await openClient(world.baseUrl).get(PATH)).status).toBe(401);
  });

  test("contains no rows of another user", async () => {
    for (const query of ["", `search=${HASH}`, "types=RECEIVE", "search=order", "amountMin=0"]) {
      const { body } = await bob.client.get(`${PATH}?${query}`);
      for (const row of body.data.transactions) expect(nameOf.has(row.id)).toBe(false);
    }
  });
});

describe("filters", () => {
  const withType = (type: string) =>
    ROWS.filter((row) => (row.type ?? "RECEIVE") === type).map(({ name }) => name);

  test("types, in every notation of arrays", async () => {
    expect(await namesOf("types=SEND")).toEqual(withType("SEND"));
    const both = ALL.filter((name) => [...withType("SEND"), ...withType("PAYMENT_LINK")].includes(name));
    for (const query of [
      "types=SEND&types=PAYMENT_LINK",
      "types=SEND,PAYMENT_LINK",
      "types[]=SEND&types[]=PAYMENT_LINK",
      "types%5B%5D=SEND,PAYMENT_LINK",
      "types=SEND&types[]=PAYMENT_LINK",
      "types=SEND,SEND,%20PAYMENT_LINK,",
    ])
      expect(await namesOf(query)).toEqual(both);
  });

  test("statuses, networks, currencies", async () => {
    expect(await namesOf("statuses=FAILED,ORPHANED")).toEqual(["base", "orphan"]);
    expect(await namesOf("networks=base")).toEqual(["base", "orphan"]);
    expect(await namesOf("currencies=USDC")).toEqual(ALL);
    expect(await namesOf("statuses=PENDING&networks=base")).toEqual([]);
    expect(await namesOf("types=&statuses=&search=")).toEqual(ALL);
  });

  test.each([
    "types=send",
    "types=REFUND",
    "statuses=DONE",
    "networks=polygon",
    "currencies=EUR",
    "types=SEND,NOPE",
    "types[0]=SEND",
    "statuses[0][]=FAILED",
  ])("error: %s is 400 and named", async (query) => {
    const { status, body } = await ann.client.get(`${PATH}?${query}`);
    expect(status).toBe(400);
    expect(body.error.details.field).toStartWith(query.split("=")[0] ?? "");
  });

  test("search: commas, brackets and braces are literal", async () => {
    const { client, userId } = await signUp(world.baseUrl);
    const descriptions = ["Invoice 5, July", "[draft]", '{"a":1}', '"quoted"'];
    const given = descriptions.map((description) => ({ description }));
    await insertHistory(world.sql, userId, given);
    for (const description of descriptions) {
      const { body } = await client.get(`/v1/transactions?search=${encodeURIComponent(description)}`);
      expect(body.data.transactions).toMatchObject([{ description }]);
    }
  });

  test("arrays: repeated keys and commas in one query", async () => {
    expect(await namesOf("types=SEND&types=RECEIVE,PAYMENT_LINK")).toHaveLength(ROWS.length);
    expect(await namesOf("types=RECEIVE,PAYMENT_LINK&types[]=SEND,SEND")).toHaveLength(ROWS.length);
  });

  test("dates: both ends are inclusive, to the millisecond", async () => {
    expect(await namesOf("dateFrom=2026-01-01T12:00:00.123Z&dateTo=2026-01-01T12:00:00.123Z")).toEqual([
      "micro",
    ]);
    expect(await namesOf("dateFrom=2026-01-01T12:00:00.124Z&dateTo=2026-01-01T23:00:00Z")).toEqual([]);
    expect(await namesOf("dateTo=2025-12-31T23:59:59.998Z")).toEqual([]);
    expect(await namesOf("dateTo=2025-12-31T23:59:59.999Z")).toEqual(["old"]);
    expect(await namesOf("dateFrom=2026-01-06T08:00:00Z")).toEqual(["orphan"]);
    expect(await namesOf("dateFrom=2026-01-06T08:00:00.001Z")).toEqual([]);
  });

  test("dates: one without a time is the whole UTC day", async () => {
    expect(await namesOf("dateFrom=2026-01-01&dateTo=2026-01-01")).toEqual(["newyear", "micro", "midnight"]);
    expect(await namesOf("dateTo=2025-12-31")).toEqual(["old"]);
    expect(await namesOf("dateFrom=2026-01-05")).toEqual(["detected", "orphan"]);
  });

  test("dates: other zones, no zone, no seconds", async () => {
    for (const one of [
      "2026-01-01T13:00:00.123%2B01:00",
      "2026-01-01T13:00:00.123+01:00",
      "2026-01-01T07:00:00.123-0500",
    ])
      expect(await namesOf(`dateFrom=${one}&dateTo=${one}`)).toEqual(["micro"]);
    expect(await namesOf("dateFrom=2026-01-03T08:00&dateTo=2026-01-03T08:00:00")).toEqual(["hash"]);
  });

  test.each(["0000-01-01", "0000-12-31T00:00:00Z", "0001-01-01T00:00:00%2B02:00"])(
    "dates: the beginning of the calendar, %s, excludes nothing",
    async (early) => {
      expect(await namesOf(`dateFrom=${early}`)).toHaveLength(ROWS.length);
      expect(await namesOf(`dateTo=${early}&search=o`)).toEqual([]);
    },
  );

  test.each(["9999-12-31", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-12:00"])(
    "dates: the end of the calendar, %s, excludes nothing",
    async (late) => {
      expect(await namesOf(`dateTo=${late}`)).toHaveLength(ROWS.length);
      expect(await namesOf(`dateTo=${late}&amountMin=0&types=SEND`)).toHaveLength(2);
      expect(await namesOf(`dateFrom=${late}`)).toEqual([]);
    },
  );

  test("dates with a type, over whole and partial days", async () => {
    expect(
      await namesOf("types=PAYMENT_LINK&dateFrom=2025-12-31T12:00:00Z&dateTo=2026-01-04T07:59:59Z"),
    ).toEqual(["micro", "midnight"]);
    expect(
      await namesOf("types=PAYMENT_LINK&dateFrom=2025-12-31T12:00:00Z&dateTo=2026-01-04T08:00:00Z"),
    ).toEqual(["micro", "midnight", "pending"]);
  });

  test.each([
    "dateFrom=yesterday",
    "dateFrom=2026-02-30",
    "dateFrom=2026-13-01",
    "dateTo=2026-01-01T25:00:00Z",
    "dateTo=1767225600",
    "dateFrom=2026-01-01T00:00:00%2B99:00",
    "dateFrom=2026-01-02&dateTo=2026-01-01",
    "dateFrom=2026-01-01T00:00:01Z&dateTo=2026-01-01T00:00:00Z",
  ])("error: %s", async (query) => {
    const { status, body } = await ann.client.get(`${PATH}?${query}`);
    expect(status).toBe(400);
    expect(body.error.details.field).toMatch(/^date(From|To)$/);
  });

  test("amounts: both ends are inclusive, to the micro-USDC", async () => {
    expect(await namesOf("amountMin=10&amountMax=10")).toEqual(["newyear"]);
    expect(await namesOf("amountMin=9.999999&amountMax=10.000001")).toEqual(["newyear", "micro", "midnight"]);
    expect(await namesOf("amountMax=0.000001")).toEqual(["old"]);
    expect(await namesOf("amountMax=0")).toEqual([]);
    expect(await namesOf("amountMin=123456.789012")).toEqual(["hash"]);
    expect(await namesOf("amountMin=123456.789013")).toEqual([]);
    expect(await namesOf("amountMin=0")).toEqual(ALL);
    expect(await namesOf("amountMin=999999999999999999.999999")).toEqual([]);
    expect(await namesOf("amountMin=0&amountMax=999999999999999999.999999")).toEqual(ALL);
    expect(await namesOf("amountMin=999999999999999999&dateFrom=2026-01-01&search=x")).toEqual([]);
    expect(await namesOf("amountMin=10&amountMax=10&types=SEND")).toEqual(["newyear"]);
    expect(await namesOf("amountMin=10&amountMax=10&types=RECEIVE")).toEqual([]);
    expect(await namesOf("amountMin=5&dateTo=2026-01-01&statuses=CONFIRMED")).toEqual([
      "newyear",
      "micro",
      "midnight",
    ]);
  });

  test.each([
    "amountMin=-1",
    "amountMin=abc",
    "amountMax=1e3",
    "amountMin=0.0000001",
    "amountMin=2&amountMax=1",
    "amountMin=NaN",
  ])("error: %s", async (query) => {
    const { status, body } = await ann.client.get(`${PATH}?${query}`);
    expect(status).toBe(400);
    expect(body.error.details.field).toStartWith("amount");
  });

  test("search: a part of the description in any case", async () => {
    expect(await namesOf("search=wolle")).toEqual(["micro", "midnight"]);
    expect(await namesOf("search=ORDER")).toEqual(["old"]);
    expect(await namesOf("search=d o")).toEqual(["old"]);
    expect(await namesOf(`search=${encodeURIComponent("注文")}`)).toEqual(["pending"]);
    expect(await namesOf(`search=${encodeURIComponent("<b>")}`)).toEqual(["pending"]);
    expect(await namesOf("search=%20wolle%20")).toEqual(["micro", "midnight"]);
  });

  test("search: wildcards and backslashes are literal", async () => {
    expect(await namesOf("search=100%25")).toEqual(["micro"]);
    expect(await namesOf("search=%25")).toEqual(["micro"]);
    expect(await namesOf("search=_")).toEqual(["micro"]);
    expect(await namesOf(`search=${encodeURIComponent("a\\b")}`)).toEqual(["micro"]);
    expect(await namesOf("search=Wol_e")).toEqual([]);
    expect(await namesOf("search=%25%25%25%25%25%25%25%25%25%25")).toEqual([]);
    expect(await namesOf(`search=${encodeURIComponent("' or 1=1 --")}`)).toEqual([]);
  });

  test("search: the beginning of a hash, but not its middle", async () => {
    expect(await namesOf(`search=${HASH}`)).toEqual(["hash"]);
    expect(await namesOf(`search=${HASH.toUpperCase().replace("0X", "0x")}`)).toEqual(["hash"]);
    expect(await namesOf("search=0xabcdef12")).toEqual(["hash"]);
    expect(await namesOf("search=0xabcdef")).toEqual(["hash", "detected"]);
    expect(await namesOf("search=1212121212")).toEqual([]);
    expect(await namesOf(`search=${HASH}0`)).toEqual([]);
  });

  test("search with other filters", async () => {
    expect(await namesOf("search=wolle&amountMin=10")).toEqual(["micro"]);
    expect(await namesOf("search=wolle&dateFrom=2026-01-01T13:00:00Z&dateTo=2026-01-02")).toEqual([
      "midnight",
    ]);
    expect(await namesOf("search=wolle&types=SEND")).toEqual([]);
  });

  test("error: a search that is not text or too long", async () => {
    expect((await ann.client.get(`${PATH}?search=%00`)).status).toBe(400);
    expect((await ann.client.get(`${PATH}?search=${"x".repeat(201)}`)).status).toBe(400);
    expect((await ann.client.get(`${PATH}?search=${"x".repeat(200)}`)).status).toBe(200);
  });
});

describe("paging", () => {
  test.each(["limit=0", "limit=101", "limit=-1", "limit=x", "limit=1.5", "limit="])(
    "error: %s",
    async (query) => {
      const { status, body } = await ann.client.get(`${PATH}?${query}`);
      expect([status, body.error.details.field]).toEqual([400, "limit"]);
    },
  );
  test.each(["offset=-1", "offset=x", "offset=1.5", "offset=99999999999"])("error: %s", async (query) => {
    const { status, body } = await ann.client.get(`${PATH}?${query}`);
    expect([status, body.error.details.field]).toEqual([400, "offset"]);
  });

  test("limits 1 and 100 are accepted; an offset at or beyond the end is empty", async () => {
    expect((await ann.client.get(`${PATH}?limit=1`)).body.data.pagination).toEqual({
      total: 9,
      limit: 1,
      offset: 0,
      hasMore: true,
    });
    expect((await ann.client.get(`${PATH}?limit=1&offset=8`)).body.data.pagination.hasMore).toBe(false);
    for (const offset of [9, 10, 1_000_000]) {
      const { body } = await ann.client.get(`${PATH}?offset=${offset}`);
      expect(body.data.transactions).toEqual([]);
      expect(body.data.pagination).toMatchObject({ total: 9, offset, hasMore: false });
    }
  });

  test("pages of every filter join without gap or overlap, even at distant offsets and within one instant", async () => {
    const kim = await signUp(world.baseUrl);
    const startMs = Date.UTC(2026, 3, 1);
    const rows: GivenRow[] = Array.from({ length: 1_500 }, (_, n) => ({
      // 50 per instant, three days in all
      detectedAt: new Date(startMs + Math.floor(n / 50) * 2.4 * 3_600_000),
      type: (["SEND", "RECEIVE", "PAYMENT_LINK"] as const)[n % 3] ?? "SEND",
      status: n % 7 === 0 ? "FAILED" : "CONFIRMED",
      network: n % 5 === 0 ? "base" : "base-sepolia",
      amountUnits: BigInt(n) * 10_000n + 1n,
      description: n % 2 === 0 ? "even" : "odd",
    }));
    await insertHistory(world.sql, kim.userId, rows);
    const queries = [
      "",
      "types=SEND&types=RECEIVE",
      "statuses=CONFIRMED&networks=base-sepolia",
      "dateFrom=2026-04-01T05:00:00Z&dateTo=2026-04-03T13:00:00Z",
      "types=SEND&dateTo=2026-04-03T13:00:00Z",
      "amountMin=1.5&amountMax=12",
      "search=even",
    ];
    for (const query of queries) {
      const ids: string[] = [];
      let total = Number.POSITIVE_INFINITY;
      for (let offset = 0; offset < total; offset += 100) {
        const { body } = await kim.client.get(`${PATH}?limit=100&offset=${offset}&${query}`);
        total = body.data.pagination.total;
        ids.push(...body.data.transactions.map((row: { id: string }) => row.id));
      }
      expect(ids.length).toBe(total);
      expect(new Set(ids).size).toBe(total);
      const sorted = await world.sql<{ id: string }[]>`
        select id from transactions where id = any(${ids}) order by detected_at desc, id desc`;
      expect(ids).toEqual(sorted.map(({ id }) => id));
    }
  });
});
