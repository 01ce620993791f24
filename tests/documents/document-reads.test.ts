/** Whose documents are read, and of which time: the conditions of the statements, one by one. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { newLinkId, newRefundId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { DocumentKind } from "../../core/domain/numbered-document.ts";
import {
  type DocumentFilter,
  findDocument,
  findReceiptOf,
  listCreditNotes,
  listDocuments,
  receiptNumberOf,
} from "../../db/documents/documents.ts";
import type { DueDocument } from "../../db/documents/due-documents.ts";
import { issueDocuments } from "../../db/documents/issue-documents.ts";
import { countDocuments, readDocuments } from "../../db/documents/month-documents.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;
let stranger: SeededMerchant;
let link: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});
beforeEach(async () => {
  [merchant, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
  link = await seedLink(sql, merchant);
});

const NOON = new Date("2026-06-15T12:00:00Z");
const hash = (): Hex => `0x${randomBytes(32).toString("hex")}`;
const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id).sort();

async function issue(given: Partial<DueDocument> = {}, kind: DocumentKind = "RECEIPT"): Promise<string> {
  const refundId = kind === "CREDIT_NOTE" ? newRefundId(new Date()) : null;
  const [id = ""] = await sql.begin((tx) =>
    issueDocuments(tx, kind, [
      {
        ...{ userId: merchant.userId, email: merchant.email, linkId: link, parentId: null },
        ...{ network: "base-sepolia", txHash: hash(), logIndex: 1, blockHash: hash(), blockNumber: 7n },
        ...{ happenedAt: NOON, amountUnits: 5n, payer: randomAddress(), recipient: randomAddress() },
        ...{ paymentId: null, transactionId: null, refundId, receiptId: null, reason: null },
        ...{ description: "Order", reference: null, legalName: null, displayName: "Ann" },
        ...{ postalAddress: null, taxId: null, timeZone: null, language: null },
        ...given,
      },
    ]),
  );
  return id;
}

const foreign = (given: Partial<DueDocument> = {}) =>
  issue({ ...stranger, userId: stranger.userId, ...given });
const end = (id: string) =>
  sql`update documents set voided_at = now(), void_reason = 'REASSIGNED' where id = ${id}`;

test("a document is found by its id, and by a merchant only if it is their own", async () => {
  const [own, other] = [await issue(), await foreign()];
  expect(await findDocument(sql, { id: own })).toMatchObject({ id: own });
  expect(await findDocument(sql, { id: own, userId: merchant.userId })).toMatchObject({ id: own });
  expect(await findDocument(sql, { id: other, userId: merchant.userId })).toBeUndefined();
});

describe("documents are listed", () => {
  const list = async (filter: Partial<DocumentFilter> = {}) =>
    idsOf(await listDocuments(sql, { userId: merchant.userId, ...filter }, 10));

  test("to their own merchant, by kind, link, and whether they are void", async () => {
    const [receipt, note, ended] = [await issue(), await issue({}, "CREDIT_NOTE"), await issue()];
    const other = await seedLink(sql, merchant);
    const [elsewhere, byParent] = [
      await issue({ linkId: other }),
      await issue({ linkId: await seedLink(sql, merchant), parentId: link }),
    ];
    const strangers = await seedLink(sql, stranger);
    await foreign({ linkId: await seedLink(sql, stranger), parentId: strangers });
    const twin = `${link.slice(0, 12)}${newLinkId().slice(12)}`;
    const byTwin = await issue({ linkId: twin });
    await end(ended);
    // as earlier versions stored them
    await sql`update documents set facts = jsonb_build_object('linkId', link_id) where id = ${receipt}`;
    const all = [receipt, note, ended, elsewhere, byParent, byTwin];
    expect(await list()).toEqual([...all].sort());
    expect(await list({ kind: "CREDIT_NOTE" })).toEqual([note]);
    expect(await list({ isVoid: true })).toEqual([ended]);
    expect(await list({ isVoid: false })).toEqual(all.filter((id) => id !== ended).sort());
    expect(await list({ linkId: other })).toEqual([elsewhere]);
    expect(await list({ linkId: link })).toEqual([receipt, note, ended, byParent].sort());
    expect(await list({ linkId: strangers })).toEqual([]);
  });

  test("of a period from its first moment to before its end, after the last one of the page before", async () => {
    const at = (time: string) => issue({ happenedAt: new Date(time) });
    const [before, first, last, after] = [
      await at("2026-05-31T23:59:59.999Z"),
      await at("2026-06-01T00:00:00Z"),
      await at("2026-06-30T23:59:59.999Z"),
      await at("2026-07-01T00:00:00Z"),
    ];
    const period = { from: new Date("2026-06-01T00:00:00Z"), before: new Date("2026-07-01T00:00:00Z") };
    expect(await list({ period })).toEqual([first, last].sort());
    expect(await list({ after: last })).toEqual([before, first].sort());
    const ofStranger = await foreign({ happenedAt: new Date("2030-01-01T00:00:00Z") });
    expect(await list({ after: ofStranger })).toEqual([]);
    const month = { userId: merchant.userId, ...period };
    const read = async (from?: string) => {
      const document = from === undefined ? undefined : await findDocument(sql, { id: from });
      return (await readDocuments(sql, month, { after: document, limit: 10 })).map(({ id }) => id);
    };
    await foreign();
    expect(await read()).toEqual([first, last]);
    expect(await read(first)).toEqual([last]);
    expect(await countDocuments(sql, month, 10)).toBe(2);
    expect(await list()).toEqual([before, first, last, after].sort());
  });
});

test("a receipt is found by its transfer's position and its link, while it is valid", async () => {
  const place = { network: "base-sepolia", txHash: hash(), logIndex: 3 } as const;
  const id = await issue(place);
  await issue(place, "CREDIT_NOTE");
  const find = async (given: object = {}) =>
    (await findReceiptOf(sql, { ...place, linkId: link, ...given }))?.id;
  expect(await find()).toBe(id);
  for (const otherwise of [
    { network: "base" },
    { txHash: hash() },
    { logIndex: 4 },
    { linkId: await seedLink(sql, merchant) },
  ])
    expect(await find(otherwise)).toBeUndefined();
  await end(id);
  expect(await find()).toBeUndefined();
});

test("credit notes are those of their receipt", async () => {
  const [receipt, other] = [await issue(), await issue()];
  const [note, ended] = [
    await issue({ receiptId: receipt }, "CREDIT_NOTE"),
    await issue({ receiptId: receipt }, "CREDIT_NOTE"),
  ];
  await issue({ receiptId: other }, "CREDIT_NOTE");
  await end(ended);
  expect(idsOf(await listCreditNotes(sql, receipt))).toEqual([note, ended].sort());
  const numberOf = async (id: string) => {
    const document = await findDocument(sql, { id });
    return document && receiptNumberOf(document);
  };
  expect(await numberOf(receipt)).toBeNull();
  expect(await numberOf(note)).toStartWith("TEST-");
});
