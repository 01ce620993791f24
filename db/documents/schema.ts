/** The drizzle definition of the table of receipts and credit notes; see db/schema.ts. */
import { boolean, integer, jsonb, numeric, pgTable, text } from "drizzle-orm/pg-core";
import type { StoredFacts } from "../../core/domain/document-facts.ts";
import type { Language } from "../../core/domain/language.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { DocumentFacts, DocumentKind, VoidReason } from "../../core/domain/numbered-document.ts";
import { bytesOfHex, time } from "../postgres/column-types.ts";

export const documents = pgTable("documents", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  kind: text("kind").$type<DocumentKind>().notNull(),
  isTest: boolean("is_test").notNull(),
  year: integer("year").notNull(),
  number: integer("number").notNull(),
  linkId: text("link_id").notNull(),
  network: text("network").$type<NetworkId>().notNull(),
  txHash: bytesOfHex("tx_hash").notNull(),
  logIndex: integer("log_index").notNull(),
  blockHash: bytesOfHex("block_hash").notNull(),
  refundId: text("refund_id"),
  receiptId: text("receipt_id"),
  amountUnits: numeric("amount_units", { precision: 78, scale: 0, mode: "bigint" }).notNull(),
  happenedAt: time("happened_at").notNull(),
  facts: jsonb("facts").$type<StoredFacts>().notNull(),
  language: text("language").$type<Language>(),
  issuedAt: time("issued_at").notNull(),
  voidedAt: time("voided_at"),
  voidReason: text("void_reason").$type<VoidReason>(),
});

export type DocumentRow = typeof documents.$inferSelect;
/** As read: with facts by name. */
export type StoredDocument = Omit<DocumentRow, "facts"> & { facts: DocumentFacts };
