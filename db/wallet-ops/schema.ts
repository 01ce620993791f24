/** The drizzle definitions of the tables about outgoing money; see db/schema.ts. */
import { boolean, integer, jsonb, numeric, pgTable, text } from "drizzle-orm/pg-core";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { OwnerAction } from "../../core/domain/owner.ts";
import type {
  OperationFailure,
  OperationKind,
  OperationState,
  OperationTerms,
} from "../../core/domain/wallet-operation.ts";
import { bytea, hex, int8, time } from "../postgres/column-types.ts";

export const walletOperations = pgTable("wallet_operations", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  walletId: text("wallet_id").notNull(),
  network: text("network").$type<NetworkId>().notNull(),
  kind: text("kind").$type<OperationKind>().notNull(),
  state: text("state").$type<OperationState>().notNull(),
  userOpHash: hex("user_op_hash").notNull(),
  accountNonce: numeric("account_nonce", { precision: 78, scale: 0, mode: "bigint" }).notNull(),
  callData: hex("call_data").notNull(),
  callGas: int8("call_gas").notNull(),
  verificationGas: int8("verification_gas").notNull(),
  terms: jsonb("terms").$type<OperationTerms>().notNull(),
  challengeId: text("challenge_id").notNull(),
  voidOf: text("void_of"),
  idempotencyKey: text("idempotency_key"),
  requestHash: bytea("request_hash"),
  requestId: text("request_id"),
  passkeyId: text("passkey_id"),
  ownerIndex: integer("owner_index"),
  signature: hex("signature"),
  assertionHash: bytea("assertion_hash"),
  relayId: int8("relay_id"),
  formerRelayIds: int8("former_relay_ids").array(),
  missedRelays: integer("missed_relays").notNull(),
  txHash: hex("tx_hash"),
  logIndex: integer("log_index"),
  blockNumber: int8("block_number"),
  succeeded: boolean("succeeded"),
  gasUsed: int8("gas_used"),
  priorState: text("prior_state").$type<OperationState>(),
  priorReason: text("prior_reason").$type<OperationFailure>(),
  reason: text("reason").$type<OperationFailure>(),
  isExtra: boolean("is_extra").notNull(),
  ownerChangeId: text("owner_change_id"),
  isAnyChain: boolean("is_any_chain").notNull(),
  refusals: integer("refusals").notNull(),
  signatureRefusedBlock: int8("signature_refused_block"),
  nextTryAt: time("next_try_at").notNull(),
  expiresAt: time("expires_at").notNull(),
  queuedAt: time("queued_at"),
  relayedAt: time("relayed_at"),
  confirmedAt: time("confirmed_at"),
  restoredAt: time("restored_at"),
  createdAt: time("created_at").notNull(),
  updatedAt: time("updated_at").notNull(),
});

export const ownerChanges = pgTable("owner_changes", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  action: text("action").$type<OwnerAction>().notNull(),
  owner: hex("owner").notNull(),
  passkeyId: text("passkey_id"),
  name: text("name"),
  createdAt: time("created_at").notNull(),
  memberId: text("member_id"),
});

export type OwnerChange = typeof ownerChanges.$inferSelect;
export type WalletOperation = typeof walletOperations.$inferSelect;
