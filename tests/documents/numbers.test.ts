/** Document numbers: no gap and no repetition, no matter who counts concurrently and which connection dies. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { newLinkId } from "../../core/domain/ids.ts";
import { acceptedLanguage, LANGUAGE_TAGS, type Language } from "../../core/domain/language.ts";
import { periodOfMonth } from "../../core/domain/local-days.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { documentNumber, type NumberedDocument, yearOf } from "../../core/domain/numbered-document.ts";
import { findDocument, type ShownDocument } from "../../db/documents/documents.ts";
import type { DueDocument } from "../../db/documents/due-documents.ts";
import { issueDocuments, refreshDocuments } from "../../db/documents/issue-documents.ts";
import { readDocuments } from "../../db/documents/month-documents.ts";
import { reportProcess } from "../../db/health/process-heartbeats.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

setDefaultTimeout(120_000);

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

const hash = (): Hex => `0x${randomBytes(32).toString("hex")}`;
const address = (): Hex => `0x${randomBytes(20).toString("hex")}`;

function due({ userId, email }: SeededMerchant, given: Partial<DueDocument> = {}): DueDocument {
  return {
    ...{ userId, email, linkId: newLinkId(), parentId: null, network: "base-sepolia", txHash: hash() },
    ...{ logIndex: 0, blockHash: hash(), blockNumber: 7n, happenedAt: new Date("2026-06-01T12:00:00Z") },
    ...{ amountUnits: 1_000_000n, payer: address(), recipient: address(), paymentId: null },
    ...{ transactionId: null, refundId: null, receiptId: null, reason: null, description: "Order" },
    ...{ reference: null, legalName: null, displayName: "Ann", postalAddress: null, taxId: null },
    ...{ timeZone: "Europe/Berlin", language: null },
    ...given,
  };
}

const issue = (dues: readonly DueDocument[]) => sql.begin((tx) => issueDocuments(tx, "RECEIPT", dues));

async function numbersOf({ userId }: SeededMerchant, year = 2026): Promise<number[]> {
  const rows = await sql<{ number: number }[]>`
    select number
    from documents
    where user_id = ${userId} and year = ${year}
    order by number`;
  return rows.map(({ number }) => number);
}
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe("the facts of documents", () => {
  const store = async () => {
    const merchant = await seedMerchant(sql);
    const [id = ""] = await issue([due(merchant, { reference: "A-1" })]);
    const [row] = await sql<{ form: string }[]>`
      select jsonb_typeof(facts) as form from documents where id = ${id}`;
    const { facts } = (await findDocument(sql, { id })) ?? {};
    expect(facts).toMatchObject({ description: "Order", reference: "A-1", timeZone: "Europe/Berlin" });
    return row?.form;
  };

  test("are stored in short form, but by name while a process of an earlier version runs", async () => {
    expect(await store()).toBe("array");
    const id = crypto.randomUUID();
    await sql`insert into processes (id, kind, version, host, pid) values (${id}, 'api', '0.0.1', 'a', 1)`;
    expect(await store()).toBe("object");
    await sql`update processes set seen_at = now() - interval '1 hour' where id = ${id}`;
    expect(await store()).toBe("array");
  });

  test("are stored in short form next to processes of this version", async () => {
    const stop = reportProcess(sql, {
      kind: "worker",
      version: "0.0.2",
      readDetails: () => ({ balances: [] }),
    });
    while ((await sql`select from processes where version = '0.0.2'`).length === 0) await Bun.sleep(10);
    expect(await store()).toBe("array");
    await stop();
  });
});

describe("the documents of a link", () => {
  test("are refreshed one at a time, and their link stays free", async () => {
    const merchant = await seedMerchant(sql);
    const linkId = await seedLink(sql, merchant);
    const others = Array.from({ length: 20 }, newLinkId);
    const ended: string[] = [];
    const second = await sql.begin(async (tx) => {
      await refreshDocuments(tx, [...others, linkId]);
      const waiting = sql
        .begin((other) => refreshDocuments(other, [linkId, ...others.toReversed()]))
        .then(() => ended.push("second"));
      await untilBlocked(sql, waiting);
      expect(
        await sql`select id from payment_links where id = ${linkId} for update skip locked`,
      ).toHaveLength(1);
      expect(ended).toEqual([]);
      ended.push("first");
      return { waiting };
    });
    await second.waiting;
    expect(ended).toEqual(["first", "second"]);
  });
});

describe("the numbers of a merchant, year and kind", () => {
  test("have no gap and no duplicate when eight connections assign them for two merchants concurrently", async () => {
    const merchants = [await seedMerchant(sql), await seedMerchant(sql)];
    const rounds = Array.from({ length: 40 }, (_, round) =>
      // in turns the one merchant first or the other
      (round % 2 === 0 ? merchants : merchants.toReversed()).flatMap((merchant) =>
        Array.from({ length: 1 + (round % 3) }, () => due(merchant)),
      ),
    );
    await Promise.all(rounds.map(issue));
    const count = rounds.reduce((sum, round) => sum + round.length / 2, 0);
    for (const merchant of merchants) expect(await numbersOf(merchant)).toEqual(upTo(count));
  });

  test("give the earlier payment of a group the lower number", async () => {
    const merchant = await seedMerchant(sql);
    const [first, second] = [due(merchant), due(merchant)];
    await issue([first, second]);
    const rows = await sql<{ txHash: Hex; number: number }[]>`
      select tx_hash, number from documents where user_id = ${merchant.userId} order by number`;
    expect([...rows]).toEqual([
      { txHash: first.txHash, number: 1 },
      { txHash: second.txHash, number: 2 },
    ]);
  });

  test("are released by a connection that ends before its commit", async () => {
    const merchant = await seedMerchant(sql);
    await issue([due(merchant)]);
    const killed = sql.begin(async (tx) => {
      await issueDocuments(tx, "RECEIPT", [due(merchant), due(merchant)]);
      const [{ pid } = { pid: 0 }] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
      await sql`select pg_terminate_backend(${pid})`;
      await tx`select 1`;
    });
    await expect(Promise.resolve(killed)).rejects.toThrow();
    await issue([due(merchant)]);
    expect(await numbersOf(merchant)).toEqual([1, 2]);
  });

  test("are assigned to a transfer once: a second attempt fails and uses no number, until the document is void", async () => {
    const merchant = await seedMerchant(sql);
    const one = due(merchant);
    const outcomes = await Promise.allSettled([issue([one]), issue([one]), issue([one])]);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    await issue([due(merchant)]);
    expect(await numbersOf(merchant)).toEqual([1, 2]);
    await sql`
      update documents
      set voided_at = now(), void_reason = 'REORGANISED'
      where user_id = ${merchant.userId} and number = 1`;
    await issue([one]);
    expect(await numbersOf(merchant)).toEqual([1, 2, 3]);
  });

  test.each([
    ["a byte less", `0x${"ab".repeat(31)}`, "documents_lengths_check"],
    ["a byte more", `0x${"ab".repeat(33)}`, "documents_lengths_check"],
    ["half a byte less", hash().slice(0, -1), "invalid hexadecimal data"],
    ["no hexadecimal digits", `0x${"xy".repeat(32)}`, "invalid hexadecimal digit"],
    ["another prefix", `1x${"ab".repeat(32)}`, "bytes must be given as 0x"],
  ])("are not given to a hash with %s", async (_, text, refusal) => {
    const merchant = await seedMerchant(sql);
    const wrong = text as Hex;
    await expect(issue([due(merchant, { txHash: wrong })])).rejects.toThrow(refusal);
    await expect(issue([due(merchant, { blockHash: wrong })])).rejects.toThrow(refusal);
    expect(await numbersOf(merchant)).toEqual([]);
  });

  test.each([
    ["payments_payer_language_check"],
    ["claims_payer_language_check"],
    ["documents_language_check"],
    ["merchant_books_document_language_check"],
  ])("the languages that the database accepts are those of the payment page, by %s", async (name) => {
    const [row] = await sql<{ rule: string }[]>`
      select pg_get_constraintdef(oid) as rule from pg_constraint where conname = ${name}`;
    const known = [...(row?.rule ?? "").matchAll(/'([\w-]+)'/g)].map(([, tag]) => tag);
    expect(known.toSorted()).toEqual([...LANGUAGE_TAGS].toSorted());
    const merchant = await seedMerchant(sql);
    const wrong = "xx" as Language;
    await expect(issue([due(merchant, { language: wrong })])).rejects.toThrow("documents_language_check");
  });

  test("are counted apart for receipts and credit notes, and for each year", async () => {
    const merchant = await seedMerchant(sql);
    await issue([
      due(merchant),
      due(merchant, { happenedAt: new Date("2026-12-31T22:59:59Z") }),
      due(merchant, { happenedAt: new Date("2026-12-31T23:00:00Z") }),
    ]);
    expect(await numbersOf(merchant, 2026)).toEqual([1, 2]);
    expect(await numbersOf(merchant, 2027)).toEqual([1]);
    await sql.begin((tx) => issueDocuments(tx, "CREDIT_NOTE", [due(merchant, { refundId: "rfd_1" })]));
    const notes = await sql<{ number: number }[]>`
      select number from documents where user_id = ${merchant.userId} and kind = 'CREDIT_NOTE'`;
    expect(notes.map(({ number }) => number)).toEqual([1]);
  });

  test("are counted apart for test networks; a document from before keeps its number", async () => {
    const merchant = await seedMerchant(sql);
    const [real, play] = [{ network: "base" }, { network: "base-sepolia" }] as const;
    await issue([due(merchant, real)]);
    // as it was numbered before
    await sql`update documents set network = 'base-sepolia' where user_id = ${merchant.userId}`;
    await issue([due(merchant, play), due(merchant, real), due(merchant, play), due(merchant, real)]);
    await issue([due(merchant, play)]);
    const rows = await sql<NumberedDocument[]>`
      select kind, is_test, year, number
      from documents
      where user_id = ${merchant.userId}
      order by is_test, number`;
    expect(rows.map(documentNumber)).toEqual([
      ...["R-2026-00001", "R-2026-00002", "R-2026-00003"],
      ...["TEST-R-2026-00001", "TEST-R-2026-00002", "TEST-R-2026-00003"],
    ]);
    const month = { userId: merchant.userId, ...periodOfMonth("2026-06", "UTC") };
    const read = [];
    let after: ShownDocument | undefined;
    do {
      const [next] = await readDocuments(sql, month, { after, limit: 1 });
      if (next) read.push(documentNumber(next));
      after = next;
    } while (after);
    expect(read).toEqual(rows.map(documentNumber));
  });
});

test.each([
  ["2026-12-31T22:59:59Z", "Europe/Berlin", 2026],
  ["2026-12-31T23:00:00Z", "Europe/Berlin", 2027],
  ["2027-01-01T04:59:59Z", "America/New_York", 2026],
  ["2027-01-01T05:00:00Z", "America/New_York", 2027],
  ["2026-12-31T23:59:59Z", "UTC", 2026],
] as const)("a payment at %s in %s is numbered in %d", (instant, zone, year) => {
  expect(yearOf(new Date(instant), zone)).toBe(year);
});

test("a number is written with its kind, year and five digits, or as many as it has", () => {
  const receipt = { kind: "RECEIPT", isTest: false, year: 2026, number: 42 } as const;
  const note = { kind: "CREDIT_NOTE", isTest: false, year: 2027, number: 123_456 } as const;
  expect([receipt, note].map(documentNumber)).toEqual(["R-2026-00042", "C-2027-123456"]);
  const tests = [receipt, note].map((one) => documentNumber({ ...one, isTest: true }));
  expect(tests).toEqual(["TEST-R-2026-00042", "TEST-C-2027-123456"]);
});

test.each([
  [undefined, undefined],
  ["", undefined],
  ["*", undefined],
  ["ja", undefined],
  ["de", "de"],
  ["de-CH", "de"],
  ["PT", "pt-BR"],
  ["zh-TW", "zh-Hans"],
  ["ja, en;q=0.3, tr;q=0.7", "tr"],
  ["de;q=0, fr;q=0.1", "fr"],
  ["de'; drop table payments; --", undefined],
  // RFC 9110, 12.4.2: a weight of 0 is "not acceptable"
  ["de;q=0", undefined],
  ["en ; q=0.5, de ; q=0.9", "de"],
  ["en;Q=0.5, de", "de"],
  [`${"ja,".repeat(19)}de`, "de"],
  [`${"ja,".repeat(20)}de`, undefined],
] as const)("of Accept-Language %p the language is %p", (header, language) => {
  expect(acceptedLanguage(header)).toBe(language);
});
