/** The drizzle definitions of the tables of members; see db/schema.ts. */
import { pgTable, text } from "drizzle-orm/pg-core";
import type { InvitationOutcome } from "../../core/domain/invitation.ts";
import type { MemberRole } from "../../core/domain/member.ts";
import { time } from "../postgres/column-types.ts";

export const members = pgTable("members", {
  merchantId: text("merchant_id").notNull(),
  userId: text("user_id").notNull(),
  role: text("role").$type<MemberRole>().notNull(),
  invitedBy: text("invited_by").notNull(),
  createdAt: time("created_at").notNull(),
  updatedAt: time("updated_at").notNull(),
});

export const memberInvitations = pgTable("member_invitations", {
  id: text("id").primaryKey(),
  merchantId: text("merchant_id").notNull(),
  email: text("email").notNull(),
  role: text("role").$type<MemberRole>().notNull(),
  invitedBy: text("invited_by").notNull(),
  sentAt: time("sent_at"),
  createdAt: time("created_at").notNull(),
  expiresAt: time("expires_at").notNull(),
  outcome: text("outcome").$type<InvitationOutcome>(),
  endedAt: time("ended_at"),
});

export type Member = typeof members.$inferSelect;
export type Invitation = typeof memberInvitations.$inferSelect;
