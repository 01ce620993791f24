/** Which payments and refunds are due a document, in which language, and which documents become void: the conditions, one by one. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newLinkId, newRefundId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { findDueCreditNotes, findDueReceipts, voidDocuments } from "../../db/documents/due-documents.ts";
import { refreshDocuments } from "../../db/documents/issue-documents.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";
import { insertHistory } from "../transactions/history.ts";
import { bookDocuments } from "./book-documents.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;
let merchant: SeededMerchant;
let link: string;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  merchant = await seedMerchant(sql);
  link = await seedLink(sql, merchant);
});

const { set, paid, refunded, issue } = bookDocuments(() => ({ lab, sql, merchant, link }));

/** Another link of the same millisecond. */
const twinOf = (linkId: string) => `${linkId.slice(0, 12)}${newLinkId().slice(12)}`;

const receiptsOf = async (...links: string[]) =>
  (await findDueReceipts(sql, links)).map(({ txHash, language }) => ({ txHash, language }));
const isDue = async (id = link) => (await findDueReceipts(sql, [id])).length === 1;

describe("a receipt is due", () => {
  test("for the confirmed transfer that pays one of these links, once", async () => {
    const other = await seedLink(sql, merchant);
    const txHash = await paid();
    await paid(other);
    await bookTransfer({ sql, merchant }, { link });
    expect((await receiptsOf(link)).map((row) => row.txHash)).toEqual([txHash]);
    await issue(link);
    expect(await receiptsOf(link)).toEqual([]);
    expect(await isDue(other)).toBe(true);
  });

  test("not of a transfer that is not confirmed or does not pay, nor of a link that is not PAID", async () => {
    const txHash = await paid();
    for (const status of ["DETECTED", "ORPHANED"]) {
      await set("transfers", { tx_hash: txHash }, { status });
      expect(await isDue()).toBe(false);
    }
    await set("transfers", { tx_hash: txHash }, { status: "CONFIRMED", pays: false });
    expect(await isDue()).toBe(false);
    await set("transfers", { tx_hash: txHash }, { pays: true });
    await set("payment_links", { id: link }, { status: "PENDING", paid_at: null });
    expect(await isDue()).toBe(false);
    await set("payment_links", { id: link }, { status: "PAID", paid_at: new Date() });
    expect(await isDue()).toBe(true);
  });

  test("again where the one it had is void, in that one's language", async () => {
    const txHash = await paid();
    await issue(link);
    await set("documents", { link_id: link }, { language: "fr" });
    expect(await isDue()).toBe(false);
    await set("documents", { link_id: link }, { voided_at: new Date(), void_reason: "REORGANISED" });
    expect(await receiptsOf(link)).toEqual([{ txHash, language: "fr" }]);
    await set("documents", { link_id: link }, { tx_hash: randomHash() });
    expect(await receiptsOf(link)).toEqual([{ txHash, language: null }]);
    await set("documents", { link_id: link }, { tx_hash: txHash, link_id: twinOf(link) });
    expect(await receiptsOf(link)).toEqual([{ txHash, language: null }]);
  });

  test("besides the credit note of the same transfer, whose language does not count", async () => {
    const txHash = await paid();
    await issue(link);
    await set(
      "documents",
      { link_id: link },
      { kind: "CREDIT_NOTE", refund_id: newRefundId(new Date()), language: "fr" },
    );
    expect(await receiptsOf(link)).toEqual([{ txHash, language: null }]);
  });

  test("in the language of the page that claimed this very transfer from its sender", async () => {
    const from = randomAddress();
    const txHash = await paid(link, { from });
    const claimed = (given: object) => sql`
      insert into claims ${sql({
        ...{ id: `clm_${crypto.randomUUID()}`, link_id: link, network: NETWORK, tx_hash: txHash },
        ...{ client_address: from, payer_language: "de", state: "OPEN", lease_until: new Date() },
        ...given,
      })}`;
    await claimed({ tx_hash: randomHash(), payer_language: "es" });
    await claimed({ link_id: await seedLink(sql, merchant), payer_language: "es" });
    await claimed({ client_address: randomAddress(), payer_language: "tr" });
    expect(await receiptsOf(link)).toEqual([{ txHash, language: null }]);
    await sql`delete from claims where link_id = ${link} and tx_hash = ${txHash}`;
    await claimed({});
    expect(await receiptsOf(link)).toEqual([{ txHash, language: "de" }]);
  });

  test("with the merchant's own history row and books", async () => {
    const txHash = await paid();
    const stranger = await seedMerchant(sql);
    await sql`insert into merchant_books (user_id, legal_name) values (${stranger.userId}, 'Stranger')`;
    await sql`insert into merchant_books (user_id, legal_name) values (${merchant.userId}, 'Own')`;
    // of a payment from the merchant's own wallet
    const [sent = ""] = await insertHistory(sql, merchant.userId, [{ type: "SEND" }]);
    await sql`
      update transactions set transfer_id = (select id from transfers where tx_hash = ${txHash}) where id = ${sent}`;
    const [row] = await sql<{ id: string }[]>`
      select id from transactions where link_id = ${link} and type = 'PAYMENT_LINK'`;
    expect(await findDueReceipts(sql, [link])).toMatchObject([
      { legalName: "Own", email: merchant.email, transactionId: row?.id },
    ]);
  });
});

describe("a credit note is due", () => {
  const notes = (...links: string[]) => findDueCreditNotes(sql, links);

  test("for the confirmed refund of one of these links, without its fee, with the receipt, once", async () => {
    const txHash = await paid();
    await issue(link);
    const refund = await refunded(txHash);
    const other = await seedLink(sql, merchant);
    await refunded(txHash, other);
    const [receipt] = await sql<{ id: string }[]>`select id from documents where link_id = ${link}`;
    expect(await notes(link)).toMatchObject([
      { refundId: refund.id, txHash: refund.txHash, logIndex: 2, receiptId: receipt?.id },
    ]);
    await issue(link);
    expect(await notes(link)).toEqual([]);
    expect(await notes(other)).toHaveLength(1);
  });

  test("not before operation, history row and transfer are all CONFIRMED", async () => {
    const { id, txHash } = await refunded(await paid());
    const due = async () => (await notes(link)).length;
    await set("wallet_operations", { id }, { state: "MINED" });
    expect(await due()).toBe(0);
    await set("wallet_operations", { id }, { state: "CONFIRMED" });
    await set("transactions", { operation_id: id }, { status: "DETECTED" });
    expect(await due()).toBe(0);
    await set("transactions", { operation_id: id }, { status: "CONFIRMED" });
    await set("transfers", { tx_hash: txHash }, { status: "ORPHANED" });
    expect(await due()).toBe(0);
    await set("transfers", { tx_hash: txHash }, { status: "CONFIRMED" });
    expect(await due()).toBe(1);
  });

  test("without a receipt where that of its transfer is void or missing, in the earlier one's language", async () => {
    const txHash = await paid();
    await issue(link);
    await set("documents", { link_id: link }, { language: "fr" });
    const refund = await refunded(txHash);
    expect(await notes(link)).toMatchObject([{ language: "fr" }]);
    await set("documents", { link_id: link }, { voided_at: new Date(), void_reason: "REASSIGNED" });
    expect(await notes(link)).toMatchObject([{ receiptId: null, language: null }]);
    await sql.begin((tx) => refreshDocuments(tx, [link]));
    await sql`
      update documents
      set language = 'tr', voided_at = now(), void_reason = 'REORGANISED'
      where refund_id = ${refund.id}`;
    expect(await notes(link)).toMatchObject([{ language: "tr" }]);
    await set("documents", { refund_id: refund.id }, { link_id: twinOf(link) });
    expect((await notes(link))[0]?.language).not.toBe("tr");
    await sql`
      update documents set link_id = ${link}, refund_id = ${newRefundId(new Date())} where refund_id = ${refund.id}`;
    expect((await notes(link))[0]?.language).not.toBe("tr");
  });

  test("once, even if the transfer that it returns is another merchant's refund and has a credit note", async () => {
    const txHash = await paid();
    await issue(link);
    await set("documents", { link_id: link }, { kind: "CREDIT_NOTE", refund_id: newRefundId(new Date()) });
    await issue(link);
    await refunded(txHash);
    expect(await notes(link)).toHaveLength(1);
  });
});

describe("a document becomes void", () => {
  const voided = async (...links: string[]) => {
    const ids = await sql.begin((tx) => voidDocuments(tx, links));
    const rows = await sql<{ linkId: string; reason: string | null }[]>`
      select link_id, void_reason as reason from documents where id = any(${ids}::text[])`;
    return Object.fromEntries(rows.map(({ linkId, reason }) => [linkId, reason]));
  };

  test("when its transfer left the chain, only for these links, once", async () => {
    const other = await seedLink(sql, merchant);
    const hashes = [await paid(), await paid(other)];
    await issue(link, other);
    expect(await voided(link, other)).toEqual({});
    for (const txHash of hashes) await set("transfers", { tx_hash: txHash }, { status: "ORPHANED" });
    expect(await voided(link)).toEqual({ [link]: "REORGANISED" });
    expect(await voided(link)).toEqual({});
    expect(await voided(other)).toEqual({ [other]: "REORGANISED" });
  });

  test("once, even if another link's call finds it at the same time", async () => {
    const txHash = await paid();
    await issue(link);
    const heir = await seedLink(sql, merchant);
    await set("transfers", { tx_hash: txHash }, { link_id: heir });
    const [first, second] = await sql.begin(async (tx) => {
      const ids = await voidDocuments(tx, [heir]);
      const waiting = sql.begin((other) => voidDocuments(other, [link]));
      await untilBlocked(sql, waiting);
      return [ids, waiting.then((found) => ({ found }))] as const;
    });
    expect(first).toHaveLength(1);
    expect(await second).toEqual({ found: [] });
  });

  test("when its transfer is in another block, or is another link's, or pays none, once it is confirmed", async () => {
    const txHash = await paid();
    await issue(link);
    const [before] = await sql<{ blockHash: Hex }[]>`
      select block_hash from transfers where tx_hash = ${txHash}`;
    await set("transfers", { tx_hash: txHash }, { pays: false, status: "DETECTED" });
    expect(await voided(link)).toEqual({});
    await set("transfers", { tx_hash: txHash }, { status: "CONFIRMED" });
    expect(await voided(link)).toEqual({ [link]: "REASSIGNED" });
    await set("transfers", { tx_hash: txHash }, { pays: true });
    await issue(link);
    await set("transfers", { tx_hash: txHash }, { block_hash: randomHash(), status: "ORPHANED" });
    expect(await voided(link)).toEqual({});
    await set("transfers", { tx_hash: txHash }, { status: "DETECTED" });
    expect(await voided(link)).toEqual({ [link]: "REORGANISED" });
    expect(before).toBeDefined();
  });

  test("of another link, when its transfer pays one of these links now", async () => {
    const txHash = await paid();
    await issue(link);
    const heir = await seedLink(sql, merchant);
    await set("transfers", { tx_hash: txHash }, { link_id: heir, pays: false });
    expect(await voided(heir)).toEqual({});
    await set("transfers", { tx_hash: txHash }, { pays: true, status: "ORPHANED" });
    expect(await voided(heir)).toEqual({});
    await set("transfers", { tx_hash: txHash }, { status: "CONFIRMED" });
    expect(await voided(twinOf(link))).toEqual({});
    expect(await voided(heir)).toEqual({ [link]: "REASSIGNED" });
  });

  test("not by another transfer of its transaction, nor a credit note by what its transfer pays", async () => {
    const txHash = await paid();
    await issue(link);
    const other = randomHash();
    await bookTransfer({ sql, merchant }, { txHash: other, status: "ORPHANED" });
    await sql`
      update transfers
      set
        tx_hash = ${txHash}, log_index = 5,
        block_hash = (select block_hash from transfers where tx_hash = ${txHash})
      where tx_hash = ${other}`;
    const refund = await refunded(txHash);
    await issue(link);
    const rows = await sql`select from documents where link_id = ${link} and voided_at is null`;
    expect(rows).toHaveLength(2);
    expect(await voided(link)).toEqual({});
    expect(refund.id).toStartWith("rfd_");
  });
});
