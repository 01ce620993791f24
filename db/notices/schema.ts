/** The drizzle definition of the table of notices; see db/schema.ts. */
import { bigint, jsonb, pgTable, text } from "drizzle-orm/pg-core";
import type { NoticeDetails, NoticeKind } from "../../core/domain/notice-mail.ts";
import { time } from "../postgres/column-types.ts";

export const notices = pgTable("notices", {
  id: bigint("id", { mode: "bigint" }).primaryKey(),
  userId: text("user_id").notNull(),
  kind: text("kind").$type<NoticeKind>().notNull(),
  key: text("key").notNull(),
  details: jsonb("details").$type<NoticeDetails>().notNull(),
  sentAt: time("sent_at"),
  createdAt: time("created_at").notNull(),
});

export type Notice = typeof notices.$inferSelect;
