/** The tables of statements as drizzle sees them; see db/schema.ts. */
import { bigint, boolean, numeric, pgTable, text, timestamp } from "drizzle-orm/pg-core";
import type { Hex } from "../../core/domain/networks.ts";

const time = (name: string) => timestamp(name, { withTimezone: true, mode: "date" });

export const merchantBooks = pgTable("merchant_books", {
  userId: text("user_id").primaryKey(),
  legalName: text("legal_name"),
  postalAddress: text("postal_address"),
  taxId: text("tax_id"),
  timeZone: text("time_zone").notNull(),
  monthlyStatements: boolean("monthly_statements").notNull(),
  monthlySince: time("monthly_since"),
  updatedAt: time("updated_at").notNull(),
});

export const closingBalances = pgTable("closing_balances", {
  walletId: text("wallet_id").notNull(),
  endsAt: time("ends_at").notNull(),
  blockNumber: bigint("block_number", { mode: "bigint" }).notNull(),
  blockHash: text("block_hash").$type<Hex>().notNull(),
  blockTime: time("block_time").notNull(),
  balanceUnits: numeric("balance_units", { precision: 78, scale: 0, mode: "bigint" }).notNull(),
  recordedAt: time("recorded_at").notNull(),
});

export const monthlyStatements = pgTable("monthly_statements", {
  walletId: text("wallet_id").notNull(),
  userId: text("user_id").notNull(),
  month: text("month").notNull(),
  pdfExportId: text("pdf_export_id"),
  csvExportId: text("csv_export_id"),
  announcedAt: time("announced_at"),
  createdAt: time("created_at").notNull(),
});

export type MerchantBooks = typeof merchantBooks.$inferSelect;
export type ClosingBalance = typeof closingBalances.$inferSelect;
export type MonthlyStatement = typeof monthlyStatements.$inferSelect;
