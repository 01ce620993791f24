/** The drizzle definition of the table of merchants' page settings; see db/schema.ts. */
import { pgTable, text } from "drizzle-orm/pg-core";
import { bytea, time } from "../postgres/column-types.ts";

export const merchantPages = pgTable("merchant_pages", {
  userId: text("user_id").primaryKey(),
  sealedReturnSecret: bytea("sealed_return_secret"),
  frameOrigins: text("frame_origins").array().notNull(),
  accent: text("accent"),
  logoDigest: text("logo_digest"),
  updatedAt: time("updated_at").notNull(),
});

export type MerchantPage = typeof merchantPages.$inferSelect;
