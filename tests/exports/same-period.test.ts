/** One period in every form: list, summary, reports, books, statement and days agree with each other and with a sum of their own. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { formatUnits } from "../../core/domain/money.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { seededRandom, splitRandom } from "../support/seeded-random.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type GivenRow, insertHistory } from "../transactions/history.ts";
import { exportAs, fetchFile } from "./ask.ts";
import { parseCsv, pdfTexts } from "./read-files.ts";
import { readXlsx } from "./read-xlsx.ts";

setDefaultTimeout(300_000);

const seed = seededRandom("same period");
const ROWS = 900;
const NETWORK: NetworkId = "base-sepolia";
/** Half-hour and quarter-hour offsets, both ends of the date line, clocks that change at midnight, by half an hour, or in the other hemisphere. */
const ALL_ZONES = [
  ...["UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "Asia/Kolkata", "Asia/Kathmandu"],
  ...["Pacific/Kiritimati", "Pacific/Niue", "Australia/Lord_Howe", "America/Santiago", "Asia/Beirut"],
  ...["Africa/Casablanca", "Pacific/Chatham", "America/Asuncion"],
];
/** Each run takes others: a month of one zone is a dozen files. */
const ZONES_A_RUN = 4;
const ZONES = shuffle(ALL_ZONES, seed)
  .slice(0, ZONES_A_RUN)
  .map((zone) => ({ zone, random: splitRandom(seed) }));
const MONTHS = Array.from({ length: 12 }, (_, n) => `2025-${String(n + 1).padStart(2, "0")}`);

let world: MerchantWorld;
let ann: Merchant;
let rows: (GivenRow & { at: Date })[];

beforeAll(async () => {
  world = await startMerchantWorld({ env: { EXPORT_WAIT_MS: "60000" } });
  ann = await signUp(world.baseUrl);
  rows = yearOf();
  await insertHistory(world.sql, ann.userId, rows);
});
afterAll(() => world?.stop());

function shuffle<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map((item) => ({ item, place: random() }))
    .sort((one, other) => one.place - other.place)
    .map(({ item }) => item);
}

/** Calendar day of an instant, by the runtime's own formatter. */
const dayIn = (zone: string) => {
  const format = new Intl.DateTimeFormat("en-CA", {
    ...({ timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" } as const),
  });
  return (at: Date) => format.format(at);
};

/** The first second whose day in the zone is not before `day`, by bisection. */
function startOf(day: string, zone: string): number {
  const dayOf = dayIn(zone);
  let [low, high] = [
    Date.parse(`${day}T00:00:00Z`) - 2 * 86_400_000,
    Date.parse(`${day}T00:00:00Z`) + 2 * 86_400_000,
  ];
  while (high - low > 1_000) {
    const middle = Math.floor((low + high) / 2_000) * 1_000;
    if (dayOf(new Date(middle)) >= day) high = middle;
    else low = middle;
  }
  return high;
}

function yearOf() {
  const random = splitRandom(seed);
  const made: GivenRow[] = [];
  const amount = () => {
    const dice = random();
    if (dice < 0.15) return 1n;
    if (dice < 0.2) return BigInt(Math.floor(random() * 9e15));
    return BigInt(Math.floor(random() * 2e9)) + 1n;
  };
  const kind = (): Pick<GivenRow, "type" | "status" | "network" | "amountUnits" | "description"> => {
    const [dice, state, net] = [random(), random(), random()];
    return {
      type: dice < 0.4 ? "PAYMENT_LINK" : dice < 0.7 ? "RECEIVE" : "SEND",
      status: state < 0.8 ? "CONFIRMED" : state < 0.87 ? "FAILED" : state < 0.94 ? "ORPHANED" : "DETECTED",
      network: net < 0.3 ? "base" : NETWORK,
      amountUnits: amount(),
      description:
        ["=SUM(A1:A9)", 'a "quoted"\r\nline', "شكرا 🙂 ‎123", "-1", "", "x".repeat(500), "日本語；,"][
          Math.floor(random() * 9)
        ] ?? "Order",
    };
  };
  for (let n = 0; n < ROWS; n += 1)
    made.push({
      ...kind(),
      detectedAt: new Date(Date.UTC(2025, 0, 3) + Math.floor(random() * 360 * 86_400) * 1_000),
    });
  // the last second of a month and the first of the next one, in each zone
  for (const { zone } of ZONES)
    for (const month of MONTHS.slice(1)) {
      const start = startOf(`${month}-01`, zone);
      made.push(
        { ...kind(), detectedAt: new Date(start) },
        { ...kind(), detectedAt: new Date(start - 1_000) },
      );
    }
  // no statement reaches beyond the first unconfirmed transfer
  const isLast = (at: Date) => at.getTime() > Date.UTC(2025, 11, 20);
  return made.map((row) => {
    const at = new Date(row.detectedAt ?? 0);
    const { status = "CONFIRMED" } = row;
    return { ...row, at, status: status === "DETECTED" && !isLast(at) ? "ORPHANED" : status };
  });
}

const units = (text: string) => BigInt(text.replace(/[.,]/g, ""));
const signed = ({ type, amountUnits = 0n }: GivenRow) => (type === "SEND" ? -amountUnits : amountUnits);
const total = (given: readonly bigint[]) => given.reduce((all, one) => all + one, 0n);

async function statement(body: Record<string, unknown>) {
  const file = await fetchFile(ann.client, "/v1/statements", {
    method: "POST",
    body: JSON.stringify({ network: NETWORK, ...body }),
    headers: { "content-type": "application/json" },
  });
  if (file.status !== 200) throw new Error(`${file.status} ${file.text}`);
  return file;
}
async function file(body: Record<string, unknown>, headers?: Record<string, string>) {
  const made = await exportAs(ann.client, body, headers);
  if (made.status !== 200) throw new Error(`${made.status} ${made.text}`);
  return made;
}

function read(text: string) {
  const [header = [], ...records] = parseCsv(text);
  return records.map((record) => Object.fromEntries(header.map((name, at) => [name, record[at] ?? ""])));
}

describe.each(ZONES)("a month in $zone", ({ zone, random }) => {
  test("has one sum in list, summary, reports, books and statement, and the months join", async () => {
    const dayOf = dayIn(zone);
    const months = [0, 1].map(() => 1 + Math.floor(random() * 10));
    for (const at of months) {
      const month = MONTHS[at] ?? "";
      const next = MONTHS[at + 1] ?? "";
      const from = startOf(`${month}-01`, zone);
      const before = startOf(`${next}-01`, zone);
      const period = { dateFrom: new Date(from).toISOString(), dateTo: new Date(before - 1).toISOString() };
      const within = rows.filter(({ at: time }) => dayOf(time).startsWith(month));
      expect(within.length).toBe(rows.filter(({ at: time }) => +time >= from && +time < before).length);
      const confirmed = within.filter(({ status, network }) => status === "CONFIRMED" && network === NETWORK);
      const expected = total(confirmed.map(signed));
      const label = `${month} ${zone}`;

      const asked = { ...period, networks: [NETWORK], timeZone: zone };
      const books = read((await file({ format: "csv", profile: "books", ...asked })).text);
      expect([label, "books", total(books.map((row) => units(row.Net ?? "")))]).toEqual([
        label,
        "books",
        expected,
      ]);
      expect(books.every((row) => (row.Date ?? "").startsWith(month))).toBe(true);
      const sheet = readXlsx((await file({ format: "xlsx", profile: "books", ...asked })).bytes);
      expect(sheet.length - 1).toBe(confirmed.length);

      const plain = read((await file({ format: "csv", ...asked })).text);
      expect(plain.length).toBe(within.filter(({ network }) => network === NETWORK).length);
      const money = plain.filter((row) => row.Status === "CONFIRMED");
      expect([
        label,
        "csv",
        total(money.map((row) => (row.Type === "SEND" ? -1n : 1n) * units(row.Amount ?? ""))),
      ]).toEqual([label, "csv", expected]);
      const json: { type: string; status: string; amount: string }[] = JSON.parse(
        (await file({ format: "json", ...asked })).text,
      );
      expect(json.length).toBe(plain.length);

      const query = new URLSearchParams({ ...period, networks: NETWORK });
      const { body: summary } = await ann.client.get(`/v1/transactions/summary?${query}`);
      for (const { type, status, count, amount } of summary.data.summary) {
        const same = json.filter((row) => row.type === type && row.status === status);
        expect([label, type, status, count, amount]).toEqual([
          ...[label, type, status, same.length],
          formatUnits(total(same.map((row) => units(row.amount)))),
        ]);
      }
      expect(summary.data.summary.reduce((all: number, one: { count: number }) => all + one.count, 0)).toBe(
        json.length,
      );
      const { body: list } = await ann.client.get(`/v1/transactions?limit=1&${query}`);
      expect(list.data.pagination.total).toBe(json.length);

      const text = (await file({ format: "pdf", ...asked })).text;
      const last =
        /Total of (\d+) confirmed transactions?: in ([\d.]+), out ([\d.]+), net (-?[\d.]+) USDC/.exec(text);
      expect([label, last?.[1], last?.[4]]).toEqual([label, String(confirmed.length), formatUnits(expected)]);
      const pdf = pdfTexts((await file({ format: "pdf", ...asked }, { accept: "application/pdf" })).bytes);
      expect(pdf).toContain(formatUnits(expected).replace(/\B(?=(\d{3})+(?=\.))/g, ","));

      const shown = JSON.parse((await statement({ format: "json", month, timeZone: zone })).text);
      expect([label, "statement", units(shown.closingBalance) - units(shown.openingBalance)]).toEqual([
        ...[label, "statement", expected],
      ]);
      const earlier = rows.filter(
        ({ at: time, status, network }) => +time < from && status === "CONFIRMED" && network === NETWORK,
      );
      expect(units(shown.openingBalance)).toBe(total(earlier.map(signed)));
      expect(shown.movements.map(({ id }: { id: string }) => id)).toEqual(books.map((row) => row["Row ID"]));
      const lines = read((await statement({ format: "csv", month, timeZone: zone })).text);
      expect(lines.slice(1, -2).map((row) => row["Row ID"])).toEqual(books.map((row) => row["Row ID"]));
      expect(lines.slice(1, -2).every((row) => (row.Date ?? "").startsWith(month))).toBe(true);
    }
  });
});
