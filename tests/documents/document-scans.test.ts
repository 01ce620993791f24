/** Lists of documents read what they show, whatever is filtered, and not the merchant's other documents. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newLinkId } from "../../core/domain/ids.ts";
import { type DocumentFilter, listDocuments } from "../../db/documents/documents.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { countRowsRead } from "../support/rows-read.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";

/** Of a page, its cursor and a few beside it in their index; the merchant has thousands. */
const ROWS_MAX = 40;
const PAGE = 5;
const JANUARY = { from: new Date("2026-01-01T00:00:00Z"), before: new Date("2026-02-01T00:00:00Z") };

type Row = {
  id: string;
  kind: string;
  linkId: string;
  payersLink: string;
  isVoid: boolean;
  happenedAt: Date;
  number: number;
};

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;
let stranger: SeededMerchant;
/** Used a thousand times. */
let reusable: string;
/** Its payments are refunded. */
let refunded: string;
let strangers: string;
/** Paid by two transfers; refunded once. */
let plain: string;
let all: Row[];

type Given = { of: SeededMerchant; count: number; link: string | null; kind?: string; isVoid?: boolean };

/** An hour apart from `since` on; `link`: payments by this reusable link, else each of a link of its own. */
async function add(since: string, { of, count, link, kind = "RECEIPT", isVoid = false }: Given) {
  const links = Array.from({ length: count }, (_, n) => newLinkId(new Date(Date.parse(since) + n * 60_000)));
  await sql`
    insert into documents (
      id, user_id, kind, is_test, year, number, link_id, network, tx_hash, log_index, block_hash, refund_id, amount_units,
      happened_at, facts, voided_at, void_reason
    )
    select
      'doc_' || used || n, ${of.userId}, ${kind}, true, 2026, last + n, used, 'base-sepolia', sha256((used || n)::bytea), 1,
      sha256((used || n)::bytea), case when ${kind} = 'CREDIT_NOTE' then 'rfd_' || n end, 5,
      -- two of a block
      ${since}::timestamptz + (n + 1) / 2 * interval '1 hour',
      -- every fourth as it was stored by name
      case when n % 4 = 0
        then jsonb_build_object('linkId', coalesce(${link}::text, used))
        else jsonb_build_array('Ann', 'ann@example.test', 'Order', null, '', '', n, case when ${link}::text <> used then ${link}::text end)
      end,
      case when ${isVoid} then now() end, case when ${isVoid} then 'REASSIGNED' end
    from unnest(${links}::text[]) with ordinality as given (used, n),
      (select coalesce(max(number), 0) as last from documents where user_id = ${of.userId}) counter`;
  return links;
}

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  [merchant, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
  [reusable = "", refunded = ""] = await seedLinks(sql, merchant, { count: 2, isReusable: true });
  [strangers = ""] = await seedLinks(sql, stranger, { isReusable: true });
  const [own, note] = [{ of: merchant, link: null }, { kind: "CREDIT_NOTE" }];
  [plain = ""] = await add("2026-01-02", { ...own, count: 1 });
  await add("2026-01-03", { ...own, ...note, count: 3, link: reusable });
  await add("2026-01-04", { ...own, ...note, count: 4, isVoid: true });
  await add("2026-01-05", { ...own, ...note, count: 2, isVoid: true, link: reusable });
  await add("2026-01-06", { ...own, count: 60, isVoid: true });
  await add("2026-01-10", { ...own, count: 400, link: reusable });
  const notes = await add("2026-02-10", { ...own, ...note, count: 200, link: refunded });
  await add("2026-03-10", { ...own, count: 1_200 });
  await add("2026-01-02", { of: stranger, count: 400, link: strangers });
  await sql`
    update documents set link_id = ${plain}, facts = '[]' where link_id = any(${notes.slice(0, 2)}::text[])`;
  await sql`analyze documents`;
  all = await sql<Row[]>`
    select
      id, kind, link_id, coalesce(facts ->> 'linkId', facts ->> 7, link_id) as payers_link, voided_at is not null as is_void, happened_at, number
    from documents
    where user_id = ${merchant.userId}
    order by happened_at desc, number desc, id desc`;
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

/** By looking at each document. */
const chosen = ({ kind, isVoid, linkId, period }: Partial<DocumentFilter>) =>
  all
    .filter((row) => kind === undefined || row.kind === kind)
    .filter((row) => isVoid === undefined || row.isVoid === isVoid)
    .filter((row) => linkId === undefined || row.linkId === linkId || row.payersLink === linkId)
    .filter((row) => !period || (row.happenedAt >= period.from && row.happenedAt < period.before))
    .map(({ id }) => id);

const note = { kind: "CREDIT_NOTE" } as const;
const FILTERS: [string, () => Partial<DocumentFilter>, number][] = [
  ["a link", () => ({ linkId: plain }), 3],
  ["a link, credit notes", () => ({ linkId: plain, ...note }), 2],
  ["a link, void", () => ({ linkId: plain, isVoid: true }), 0],
  ["a link without documents", () => ({ linkId: newLinkId() }), 0],
  ["what is no link", () => ({ linkId: "link" }), 0],
  ["another merchant's link", () => ({ linkId: strangers }), 0],
  ["a reusable link", () => ({ linkId: reusable, isVoid: false }), 403],
  ["a reusable link in a month", () => ({ linkId: reusable, period: JANUARY }), 405],
  ["a reusable link, credit notes", () => ({ linkId: reusable, ...note }), 5],
  ["a reusable link, void", () => ({ linkId: reusable, isVoid: true }), 2],
  ["a reusable link, void credit notes", () => ({ linkId: reusable, isVoid: true, ...note }), 2],
  ["a reusable link, receipts", () => ({ linkId: reusable, kind: "RECEIPT" }), 400],
  ["a link, void receipts", () => ({ linkId: plain, isVoid: true, kind: "RECEIPT" }), 0],
  ["void", () => ({ isVoid: true }), 66],
  ["void credit notes", () => ({ isVoid: true, ...note }), 6],
  ["void in a month", () => ({ isVoid: true, period: JANUARY }), 66],
  ["credit notes", () => note, 209],
  ["credit notes in a month", () => ({ ...note, period: JANUARY }), 9],
  ["valid credit notes", () => ({ ...note, isVoid: false }), 203],
  ["all", () => ({}), 1_870],
];

describe("documents are listed", () => {
  for (const [name, filter, count] of FILTERS)
    test(`of ${name}: the same as by a full scan, page by page, reading hardly more than the page`, async () => {
      const expected = chosen(filter());
      expect(expected).toHaveLength(count);
      const given = { userId: merchant.userId, ...filter() };
      const found = await listDocuments(sql, given, 2_000);
      expect(found.map(({ id }) => id)).toEqual(expected);
      for (let page = 0; page < 4; page++) {
        const after = expected[page * PAGE - 1];
        if (page > 0 && after === undefined) break;
        const read = await countRowsRead(sql, "documents", async (tx) => {
          const rows = await listDocuments(tx, { ...given, after }, PAGE);
          expect(rows.map(({ id }) => id)).toEqual(expected.slice(page * PAGE, (page + 1) * PAGE));
        });
        expect(read).toBeLessThan(ROWS_MAX);
      }
    });
});
