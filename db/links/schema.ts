/** The drizzle definition of the table of merchants' page settings; see db/schema.ts. */
import { customType, pgTable, text, timestamp } from "drizzle-orm/pg-core";

const bytea = customType<{ data: Uint8Array }>({ dataType: () => "bytea" });

export const merchantPages = pgTable("merchant_pages", {
  userId: text("user_id").primaryKey(),
  sealedReturnSecret: bytea("sealed_return_secret"),
  frameOrigins: text("frame_origins").array().notNull(),
  accent: text("accent"),
  logoDigest: text("logo_digest"),
  updatedAt: timestamp("updated_at", { withTimezone: true, mode: "date" }).notNull(),
});

export type MerchantPage = typeof merchantPages.$inferSelect;
