/** Receipts and credit notes of real payments and refunds: numbers, JSON, PDF, and what a reorganisation does to them. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fetchFile } from "../exports/ask.ts";
import { parseCsv, pdfPageCount, pdfTexts } from "../exports/read-files.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import { beginBeforeDayEnds } from "../support/begin-within-day.ts";
import { openClient } from "../support/http-client.ts";
import { makeSender } from "../support/indexer-lab-reorgs.ts";
import { addMember } from "../support/members.ts";
import { refundLab } from "../support/refund-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";
import { readZip } from "./read-zip.ts";

setDefaultTimeout(120_000);
const YEAR = new Date().getUTCFullYear();
/** As long as these tests take on a busy machine. */
const FILE_MS = 150_000;
/** A payment at midnight on New Year's Eve is in one of these. */
const number = (kind: "R" | "C", digits: string) =>
  new RegExp(`^TEST-${kind}-(${YEAR}|${YEAR + 1})-${digits}$`);

let world: World;
let merchant: Merchant;
let bob: Merchant;
const { until, makeLink, paidByX402, transferFor, refunded } = refundLab(() => ({
  ...{ world, sql: world.sql, merchant },
}));

beforeAll(async () => {
  // all are of one month
  await beginBeforeDayEnds(FILE_MS);
  world = await startWorld({ env: { RATE_LIMITS: "0", NODE_ENV: "test" } });
  await callRpc(world.chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  [merchant, bob] = [await signUp(world.baseUrl), await signUp(world.baseUrl)];
  const issuer = { legalName: "Müller & Söhne GmbH", postalAddress: "Hauptstraße 1\n10115 Berlin" };
  await merchant.client.patch("/v1/settings/books", { ...issuer, taxId: "DE123456789" });
}, 300_000);
afterAll(() => world?.stop());

type Shown = Record<string, unknown> & { id: string; number: string; status: string };
const listOf = async (query = ""): Promise<Shown[]> =>
  (await merchant.client.get(`/v1/documents?${query}`)).body.documents;
const waitForDocuments = (linkId: string, fits: (documents: Shown[]) => boolean) =>
  until(async () => {
    const documents = await listOf(`linkId=${linkId}`);
    return fits(documents) ? documents : undefined;
  });

describe("a confirmed payment and its refund", () => {
  let linkId: string;
  let receipt: Shown;

  test("the payment has a numbered receipt with the merchant's tax fields as they were then", async () => {
    ({ linkId } = await paidByX402(2.5));
    [receipt] = (await waitForDocuments(linkId, (found) => found.length > 0)) as [Shown];
    expect(receipt.number).toMatch(number("R", "00001"));
    expect(receipt).toMatchObject({
      ...{ kind: "RECEIPT", status: "VALID", voidedAt: null, voidReason: null, linkId, refundId: null },
      ...{ amount: 2.5, currency: "USDC", network: "base-sepolia", description: "Bicycle" },
      issuer: {
        name: "Müller & Söhne GmbH",
        postalAddress: "Hauptstraße 1\n10115 Berlin",
        taxId: "DE123456789",
      },
    });
    await merchant.client.patch("/v1/settings/books", { legalName: "Another name" });
    expect((await merchant.client.get(`/v1/documents/${receipt.id}`)).body).toEqual(receipt);
    const shown = (await openClient(world.baseUrl).get(`/api/v1/public/payment-links/${linkId}/receipt`))
      .body;
    expect(shown).toMatchObject({ documentId: receipt.id, documentNumber: receipt.number, creditNotes: [] });
  });

  test("running the job again and concurrent readers assign no second number", async () => {
    await world.sql`
      select graphile_worker.add_job('issue_documents', ${JSON.stringify({ linkIds: [linkId] })}::text::json)`;
    const path = `/api/v1/public/payment-links/${linkId}/receipt`;
    await Promise.all([1, 2, 3].map(() => openClient(world.baseUrl).get(path)));
    await until(async () => {
      const jobs = await world.sql`
        select 1 from graphile_worker.jobs where task_identifier = 'issue_documents'`;
      return jobs.length === 0 || undefined;
    });
    expect(await listOf(`linkId=${linkId}`)).toHaveLength(1);
  });

  test("two partial refunds have a credit note each, which names the receipt", async () => {
    await refunded(linkId, { amount: 0.75, reason: "Scratched" });
    await refunded(linkId, { amount: 0.5 });
    const documents = await waitForDocuments(linkId, (found) => found.length === 3);
    const notes = documents.filter(({ kind }) => kind === "CREDIT_NOTE").toReversed();
    expect(notes.map((note) => [note.amount, note.reason, note.receiptNumber, note.receiptId])).toEqual([
      [0.75, "Scratched", receipt.number, receipt.id],
      [0.5, null, receipt.number, receipt.id],
    ]);
    expect(notes[0]?.number).toMatch(number("C", "00001"));
    expect(notes[1]?.number).toMatch(number("C", "00002"));
    const shown = (await merchant.client.get(`/v1/payment-links/${linkId}/receipt`)).body;
    expect(shown.creditNotes.map((note: Shown) => note.number)).toEqual(notes.map((note) => note.number));
  });

  test("as PDF it is one tagged page in the language asked for, else its own", async () => {
    const german = await fetchFile(
      openClient(world.baseUrl),
      `/api/v1/public/documents/${receipt.id}?format=pdf&lang=de`,
    );
    expect(german.headers.get("content-type")).toBe("application/pdf");
    expect(german.headers.get("content-disposition")).toContain(`${receipt.number}.pdf`);
    expect(pdfPageCount(german.bytes)).toBe(1);
    const texts = pdfTexts(german.bytes).join("\n");
    for (const text of [
      `Quittung ${receipt.number}`,
      "2,50 USDC",
      "Testnetzwerk. Kein echtes Geld.",
      "Steuernr./USt-IdNr. DE123456789",
      "10115 Berlin",
    ])
      expect(texts).toContain(text);
    const raw = Buffer.from(german.bytes).toString("latin1");
    for (const mark of ["/Marked true", "/Lang (de)", "/StructTreeRoot", "/S /H1", "/Scope /Row"])
      expect(raw).toContain(mark);
    // no font is left to the reader's own
    expect(raw).not.toContain("/BaseFont /Helvetica");
    // a reader's browser changes nothing: the document is what was issued
    const accepting = { accept: "application/pdf", "accept-language": "fr-CA" };
    const issued = await fetchFile(merchant.client, `/v1/documents/${receipt.id}`, { headers: accepting });
    expect(pdfTexts(issued.bytes).join("\n")).toContain(`Receipt ${receipt.number}`);
    const [note] = await listOf("kind=CREDIT_NOTE");
    const credit = await fetchFile(merchant.client, `/v1/documents/${note?.id}?format=pdf`);
    const lines = pdfTexts(credit.bytes).join("\n");
    expect(lines).toContain(`Credit note ${note?.number}`);
    expect(lines).toContain(receipt.number);
  });

  test("are the merchant's: another merchant gets 404, a viewer reads them, a public reader needs the id", async () => {
    expect((await bob.client.get(`/v1/documents/${receipt.id}`)).status).toBe(404);
    expect((await bob.client.get("/v1/documents")).body.documents).toEqual([]);
    expect((await openClient(world.baseUrl).get("/v1/documents")).status).toBe(401);
    const path = "/api/v1/public/documents";
    expect((await openClient(world.baseUrl).get(`${path}/${receipt.id}`)).status).toBe(200);
    expect((await openClient(world.baseUrl).get(`${path}/doc_AAAAAAAAAAAAAAAAAAAAAA`)).status).toBe(404);
    await addMember(merchant, bob, "viewer");
    const answer = await bob.client.get(`/v1/documents/${receipt.id}`, { "x-merchant": merchant.userId });
    expect(answer.status).toBe(200);
  });

  test("the list is read page by page and filtered; a wrong filter is refused", async () => {
    const all = await listOf();
    const paged: string[] = [];
    for (let cursor = ""; ; ) {
      const { body } = await merchant.client.get(`/v1/documents?limit=1${cursor}`);
      paged.push(...body.documents.map(({ id }: Shown) => id));
      if (body.nextCursor === null) break;
      cursor = `&cursor=${body.nextCursor}`;
    }
    expect(paged).toEqual(all.map(({ id }) => id));
    const month = String(receipt.date).slice(0, 7);
    expect(await listOf(`month=${month}&kind=RECEIPT&status=VALID`)).toEqual([receipt]);
    expect(await listOf("month=2020-01")).toEqual([]);
    expect(await listOf("status=VOID")).toEqual([]);
    for (const query of [
      "month=2026-13",
      "month=0000-01",
      "kind=INVOICE",
      "limit=0",
      "limit=101",
      "limit=0x10",
      "limit=1e1",
      "limit=%2010",
      "cursor=x",
      "other=1",
    ])
      expect([query, (await merchant.client.get(`/v1/documents?${query}`)).status]).toEqual([query, 400]);
    // the last one's page is empty; another merchant's must not look like the end of the list
    const [last = ""] = all.map(({ id }) => id).slice(-1);
    expect((await merchant.client.get(`/v1/documents?cursor=${last}`)).body.documents).toEqual([]);
    expect((await bob.client.get(`/v1/documents?cursor=${last}`)).status).toBe(400);
  });
});

describe("the language of documents", () => {
  const speak = (documentLanguage: string) =>
    merchant.client.patch("/v1/settings/books", { documentLanguage });
  const receiptOf = async (linkId: string): Promise<Shown> => {
    const [receipt] = await waitForDocuments(linkId, (found) => found.length > 0);
    return receipt as Shown;
  };
  const noteOf = async (linkId: string): Promise<Shown> => {
    const documents = await waitForDocuments(linkId, (found) => found.length === 2);
    return documents.find(({ kind }) => kind === "CREDIT_NOTE") as Shown;
  };
  const textsOf = async ({ id }: Shown) =>
    pdfTexts(
      (await fetchFile(openClient(world.baseUrl), `/api/v1/public/documents/${id}?format=pdf`)).bytes,
    ).join("\n");

  test("is the payer's on receipt and credit note, whatever the merchant's is", async () => {
    expect((await speak("fr")).status).toBe(200);
    const { linkId } = await paidByX402(1.5, { "accept-language": "de-AT,de;q=0.9,en;q=0.8" });
    const receipt = await receiptOf(linkId);
    expect(receipt.language).toBe("de");
    expect(await textsOf(receipt)).toContain(`Quittung ${receipt.number}`);
    await refunded(linkId, { amount: 0.5 });
    const note = await noteOf(linkId);
    expect(note).toMatchObject({ language: "de", receiptId: receipt.id });
    expect(await textsOf(note)).toContain(`Gutschrift ${note.number}`);
  });

  test.each([
    ["no header", undefined],
    ["the header of Node's fetch", { "accept-language": "*" }],
    ["a language the page does not have", { "accept-language": "xx, ja;q=0.5" }],
    ["a language with weight 0", { "accept-language": "de;q=0" }],
  ])("is the merchant's of when it was issued for a payer with %s", async (_, headers) => {
    await speak("fr");
    const { linkId } = await paidByX402(1.75, headers);
    const receipt = await receiptOf(linkId);
    expect(receipt.language).toBe("fr");
    await speak("es");
    expect((await merchant.client.get(`/v1/documents/${receipt.id}`)).body).toEqual(receipt);
    if (headers === undefined) {
      await refunded(linkId);
      const note = await noteOf(linkId);
      expect(note.language).toBe("fr");
      // issued again, as after a reorganisation, it keeps its own
      await world.sql`update documents set language = 'tr' where id = ${receipt.id}`;
      await world.sql`
        update documents set voided_at = now(), void_reason = 'REORGANISED' where id = ${note.id}`;
      await world.sql`
        select graphile_worker.add_job('issue_documents', ${JSON.stringify({ linkIds: [linkId] })}::text::json)`;
      const again = await waitForDocuments(linkId, (found) => found.length === 3);
      const valid = again.find(({ kind, status }) => kind === "CREDIT_NOTE" && status === "VALID");
      expect(valid?.language).toBe("fr");
    }
  });

  test("is the merchant's for a plain transfer", async () => {
    await speak("es");
    const link = await makeLink(7.25);
    await transferFor(link, 7_250_000n);
    const receipt = await receiptOf(link);
    expect(receipt.language).toBe("es");
    expect(await textsOf(receipt)).toContain(`Recibo ${receipt.number}`);
  });

  test("is the reader's on a document from before documents had one", async () => {
    const [receipt] = (await listOf("kind=RECEIPT&limit=1")) as [Shown];
    await world.sql`update documents set language = null where id = ${receipt.id}`;
    const headers = { accept: "application/pdf", "accept-language": "tr" };
    const file = await fetchFile(merchant.client, `/v1/documents/${receipt.id}`, { headers });
    expect(pdfTexts(file.bytes).join("\n")).toContain(`Makbuz ${receipt.number}`);
    expect((await merchant.client.get(`/v1/documents/${receipt.id}`)).body.language).toBeNull();
  });

  test("is one that the page has, or the setting is refused", async () => {
    for (const [given, status] of [
      ["zh-Hans", 200],
      ["zh", 400],
      ["", 400],
      [null, 400],
      ["en", 200],
    ] as const) {
      const answer = await merchant.client.patch("/v1/settings/books", { documentLanguage: given });
      expect([given, answer.status]).toEqual([given, status]);
    }
    expect((await merchant.client.get("/v1/settings/books")).body.documentLanguage).toBe("en");
  });
});

describe("a payment whose block leaves the chain", () => {
  test("its receipt is void and keeps its number and language; the payment in another block gets the next", async () => {
    const { rpcUrl } = world.chain;
    await merchant.client.patch("/v1/settings/books", { documentLanguage: "pt-BR" });
    const link = await makeLink(3);
    const { body } = await merchant.client.get(`/api/v1/public/payment-links/${link}/data`);
    const sender = await makeSender({ chain: world.chain });
    const call = encodeTransfer(merchant.walletAddress as Hex, 3_000_000n);
    const sent = await sender.call(`${call}${body.tag.slice(2)}`);
    const [before] = (await waitForDocuments(link, (found) => found.length === 1)) as [Shown];
    const head = Number(await callRpc(rpcUrl, "eth_blockNumber", []));
    await callRpc(rpcUrl, "anvil_reorg", [head - Number(before.blockNumber) + 1, []]);
    const [voided] = (await waitForDocuments(link, ([first]) => first?.status === "VOID")) as [Shown];
    expect(voided).toMatchObject({ number: before.number, voidReason: "REORGANISED", language: "pt-BR" });
    await merchant.client.patch("/v1/settings/books", { documentLanguage: "en" });
    const pdf = await fetchFile(merchant.client, `/v1/documents/${voided.id}?format=pdf`);
    expect(pdfTexts(pdf.bytes).join("\n")).toContain("Este documento está anulado");
    expect((await merchant.client.get(`/v1/payment-links/${link}/receipt`)).status).toBe(409);

    await callRpc(rpcUrl, "evm_setTime", [Math.floor(Date.now() / 1000)]);
    await sender.resend(sent);
    const both = await waitForDocuments(link, (found) => found.length === 2);
    const [again] = both.filter(({ status }) => status === "VALID");
    expect(again?.number).toBe(
      before.number.replace(/\d{5}$/, (digits) => String(Number(digits) + 1).padStart(5, "0")),
    );
    expect(again?.transactionHash).toBe(before.transactionHash);
    expect(again?.language).toBe("pt-BR");
    // every number of the year is there once
    const receipts = (await listOf("kind=RECEIPT")).map((one) => one.number).toSorted();
    expect(receipts.map((one) => Number(one.slice(-5)))).toEqual(receipts.map((_, index) => index + 1));
  });

  test("a receipt is void once the merchant takes the transfer from the link", async () => {
    const link = await makeLink(4.25);
    const friend = await newPayer(world.chain.rpcUrl, 5_000_000n);
    await sendUsdc(world.chain.rpcUrl, friend, merchant.walletAddress as Hex, 4_250_000n);
    const [receipt] = (await waitForDocuments(link, (found) => found.length === 1)) as [Shown];
    const answer = await merchant.client.post(`/v1/transactions/${receipt.transactionId}/unassign`, {});
    expect(answer.status).toBe(200);
    const [voided] = (await waitForDocuments(link, ([first]) => first?.status === "VOID")) as [Shown];
    expect(voided).toMatchObject({ number: receipt.number, voidReason: "REASSIGNED" });
  });

  test("a receipt gives way to that of the link the transfer pays now, whichever link is looked at first", async () => {
    const [before, now] = [await makeLink(6.75), await makeLink(6.75)];
    await transferFor(before, 6_750_000n);
    const [receipt] = (await waitForDocuments(before, (found) => found.length === 1)) as [Shown];
    // as assigned elsewhere, with the job of the link it paid before still waiting
    await world.sql.begin(async (tx) => {
      await tx`
        update payment_links link
        set
          status = other.status, paid_at = other.paid_at, paid_units = other.paid_units, settled_by = other.settled_by
        from payment_links other
        where link.id in (${before}, ${now}) and other.id in (${before}, ${now}) and link.id <> other.id`;
      await tx`update transfers set link_id = ${now} where link_id = ${before}`;
    });
    const { body } = await openClient(world.baseUrl).get(`/api/v1/public/payment-links/${now}/receipt`);
    expect(body.documentId).not.toBe(receipt.id);
    const [again] = await listOf(`linkId=${now}`);
    expect([again?.id, again?.status]).toEqual([body.documentId, "VALID"]);
    const [voided] = await listOf(`linkId=${before}`);
    expect(voided).toMatchObject({ id: receipt.id, status: "VOID", voidReason: "REASSIGNED" });
  });

  test("a month's zip contains each document, including void ones, and a table of them", async () => {
    // a payment from before documents were numbered
    const { linkId } = await paidByX402(1.25);
    await waitForDocuments(linkId, (found) => found.length === 1);
    await world.sql`delete from documents where link_id = ${linkId}`;
    const all = await listOf("limit=100");
    const month = String(all[0]?.date).slice(0, 7);
    const ask = (body: object) =>
      fetchFile(merchant.client, "/v1/documents/archive", {
        ...{ method: "POST", body: JSON.stringify(body) },
        headers: { "content-type": "application/json" },
      });
    const own = readZip((await ask({ month })).bytes);
    const file = await ask({ month, language: "fr" });
    expect([file.status, file.headers.get("content-type")]).toEqual([200, "application/zip"]);
    const files = readZip(file.bytes);
    const documents = await listOf(`month=${month}&limit=100`);
    expect(documents).toHaveLength(all.length + 1);
    const german = documents.find(({ language, kind }) => language === "de" && kind === "RECEIPT");
    const issued = pdfTexts(own.get(`${german?.number}.pdf`) ?? Buffer.alloc(0)).join("\n");
    expect(issued).toContain(`Quittung ${german?.number}`);
    const names = documents.map(({ number, status }) => `${number}${status === "VOID" ? "-void" : ""}.pdf`);
    expect([...files.keys()].toSorted()).toEqual([...names, "documents.csv"].toSorted());
    for (const { number, status, kind } of documents) {
      const pdf = files.get(`${number}${status === "VOID" ? "-void" : ""}.pdf`) ?? Buffer.alloc(0);
      expect(pdfTexts(pdf).join("\n")).toContain(`${kind === "RECEIPT" ? "Reçu" : "Avoir"} ${number}`);
    }
    const [head = [], ...rows] = parseCsv(files.get("documents.csv")?.toString() ?? "");
    const at = (name: string) => head.indexOf(name);
    expect(rows.map((row) => [row[at("Number")], row[at("Status")]]).toSorted()).toEqual(
      documents.map(({ number, status }) => [number, status]).toSorted(),
    );
    for (const body of [
      { month: "2026-13" },
      { month: "9999-01" },
      { month, language: "xx" },
      {},
      { month, other: 1 },
    ])
      expect([body, (await ask(body)).status]).toEqual([body, 400]);
  });

  test("a transfer of another amount that is recorded for a link has no receipt", async () => {
    const link = await makeLink(9);
    await transferFor(link, 1_000_000n);
    expect(await listOf(`linkId=${link}`)).toEqual([]);
  });
});
