/** The drizzle definitions of the tables of exports and statements; see db/schema.ts. */
import { boolean, integer, jsonb, numeric, pgTable, text } from "drizzle-orm/pg-core";
import type { DatevSettings } from "../../core/domain/datev-settings.ts";
import type { UsdcRate } from "../../core/domain/exchange-rate.ts";
import type { ExportFormat } from "../../core/domain/export.ts";
import type { ProfileDefinition } from "../../core/domain/export-profile.ts";
import type { Language } from "../../core/domain/language.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { ScheduleDelivery, ScheduleFrequency } from "../../core/domain/schedule-period.ts";
import { int8, time } from "../postgres/column-types.ts";

export const exportFiles = pgTable("exports", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  format: text("format").$type<ExportFormat>().notNull(),
  request: jsonb("request").notNull(),
  status: text("status").$type<"QUEUED" | "RUNNING" | "READY" | "FAILED">().notNull(),
  rowsDone: integer("rows_done").notNull(),
  rowsTotal: integer("rows_total"),
  rowsMatched: int8("rows_matched"),
  attempts: integer("attempts").notNull(),
  startedAt: time("started_at"),
  truncated: boolean("truncated").notNull(),
  byteSize: int8("byte_size"),
  error: text("error"),
  /** Why the file could not be created, for its owner. */
  refusal: text("refusal"),
  requestId: text("request_id"),
  createdAt: time("created_at").notNull(),
  readyAt: time("ready_at"),
  expiresAt: time("expires_at").notNull(),
});

export const merchantBooks = pgTable("merchant_books", {
  userId: text("user_id").primaryKey(),
  legalName: text("legal_name"),
  postalAddress: text("postal_address"),
  taxId: text("tax_id"),
  timeZone: text("time_zone").notNull(),
  monthlyStatements: boolean("monthly_statements").notNull(),
  monthlySince: time("monthly_since"),
  fiatCurrency: text("fiat_currency"),
  rateSource: text("rate_source").notNull(),
  usdcRate: text("usdc_rate").$type<UsdcRate>().notNull(),
  documentLanguage: text("document_language").$type<Language>().notNull(),
  datev: jsonb("datev").$type<DatevSettings>(),
  updatedAt: time("updated_at").notNull(),
});

export const exportProfiles = pgTable("export_profiles", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  name: text("name").notNull(),
  definition: jsonb("definition").$type<ProfileDefinition>().notNull(),
  createdAt: time("created_at").notNull(),
  updatedAt: time("updated_at").notNull(),
});

export const exportSchedules = pgTable("export_schedules", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  profileId: text("profile_id").notNull(),
  frequency: text("frequency").$type<ScheduleFrequency>().notNull(),
  delivery: text("delivery").$type<ScheduleDelivery>().notNull(),
  createdBy: text("created_by").notNull(),
  createdAt: time("created_at").notNull(),
  pausedAt: time("paused_at"),
});

export const closingBalances = pgTable("closing_balances", {
  walletId: text("wallet_id").notNull(),
  endsAt: time("ends_at").notNull(),
  blockNumber: int8("block_number").notNull(),
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

export type ExportFile = typeof exportFiles.$inferSelect;
export type MerchantBooks = typeof merchantBooks.$inferSelect;
export type ExportProfileRow = typeof exportProfiles.$inferSelect;
export type ExportScheduleRow = typeof exportSchedules.$inferSelect;
export type ClosingBalance = typeof closingBalances.$inferSelect;
export type MonthlyStatement = typeof monthlyStatements.$inferSelect;
