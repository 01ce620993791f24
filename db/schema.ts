/** The tables as drizzle sees them: row types, and columns for queries that are built at run time. The SQL in db/schema and db/migrations is authoritative; a test compares them. */
import {
  boolean,
  customType,
  integer,
  jsonb,
  numeric,
  pgTable,
  smallint,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import type { ApiKeyScope } from "../core/domain/api-key-scopes.ts";
import type { ClaimPolicy, ClaimState } from "../core/domain/claim.ts";
import type { Language } from "../core/domain/language.ts";
import type { LinkException, LinkStatus } from "../core/domain/link.ts";
import type { Hex, NetworkId } from "../core/domain/networks.ts";
import type { PaymentState, TransactionStatus, TransactionType } from "../core/domain/payment.ts";
import type { SecurityEventDetails, SecurityEventType } from "../core/domain/security-event.ts";
import type { SettledBy } from "../core/domain/settled-by.ts";
import type { UserStatus } from "../core/domain/user.ts";
import { bytea, bytesOfHex, hex, int8, time } from "./postgres/column-types.ts";

/** A transaction's number; arrives as text. */
const xid8 = customType<{ data: string }>({ dataType: () => "xid8" });
const uint256 = (name: string) => numeric(name, { precision: 78, scale: 0, mode: "bigint" });
const network = () => text("network").$type<NetworkId>().notNull();

export const users = pgTable("users", {
  id: text("id").primaryKey(),
  email: text("email").notNull(),
  displayName: text("display_name"),
  status: text("status").$type<UserStatus>().notNull(),
  relayGasPerDay: int8("relay_gas_per_day"),
  createdAt: time("created_at").notNull(),
  updatedAt: time("updated_at").notNull(),
  claimPolicy: text("claim_policy").$type<ClaimPolicy>().notNull(),
  matchByAmount: boolean("match_by_amount").notNull(),
});

export const otps = pgTable("otps", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  codeHmac: bytea("code_hmac").notNull(),
  sealedCode: bytea("sealed_code"),
  attempts: integer("attempts").notNull(),
  expiresAt: time("expires_at").notNull(),
  sentAt: time("sent_at"),
  consumedAt: time("consumed_at"),
  supersededAt: time("superseded_at"),
  requestId: text("request_id"),
  createdAt: time("created_at").notNull(),
});

export const passkeys = pgTable("passkeys", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  coseKey: bytea("cose_key").notNull(),
  publicKeyX: bytea("public_key_x").notNull(),
  publicKeyY: bytea("public_key_y").notNull(),
  counter: int8("counter").notNull(),
  deviceType: text("device_type").$type<"singleDevice" | "multiDevice">().notNull(),
  backedUp: boolean("backed_up").notNull(),
  transports: text("transports").array().notNull(),
  rpId: text("rp_id").notNull(),
  aaguid: text("aaguid"),
  createdAt: time("created_at").notNull(),
  lastUsedAt: time("last_used_at"),
  name: text("name"),
});

export const challenges = pgTable("challenges", {
  id: text("id").primaryKey(),
  // null: a sign-in without an address
  userId: text("user_id"),
  purpose: text("purpose")
    .$type<"register" | "login" | "send" | "owner" | "recover" | "recover_proven">()
    .notNull(),
  network: text("network").$type<NetworkId>(),
  challenge: bytea("challenge").notNull(),
  expiresAt: time("expires_at").notNull(),
  createdAt: time("created_at").notNull(),
});

export const sessions = pgTable("sessions", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  method: text("method")
    .$type<"otp" | "passkey" | "wallet_setup" | "google" | "test" | "recovery">()
    .notNull(),
  createdAt: time("created_at").notNull(),
  expiresAt: time("expires_at").notNull(),
  absoluteEndAt: time("absolute_end_at").notNull(),
  passkeyAt: time("passkey_at"),
  lastSeenAt: time("last_seen_at").notNull(),
  userAgent: text("user_agent"),
  clientAddress: text("client_address"),
  passkeyId: text("passkey_id"),
  actedFor: text("acted_for").array().notNull(),
});

export const apiKeys = pgTable("api_keys", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  name: text("name").notNull(),
  prefix: text("prefix").notNull(),
  keyHash: bytea("key_hash").notNull(),
  scopes: text("scopes").array().$type<ApiKeyScope[]>().notNull(),
  createdAt: time("created_at").notNull(),
  lastUsedAt: time("last_used_at"),
  revokedAt: time("revoked_at"),
  createdBy: text("created_by"),
});

export const securityEvents = pgTable("security_events", {
  id: int8("id").primaryKey(),
  userId: text("user_id"),
  type: text("type").$type<SecurityEventType>().notNull(),
  clientAddress: text("client_address"),
  requestId: text("request_id"),
  details: jsonb("details").$type<SecurityEventDetails>().notNull(),
  createdAt: time("created_at").notNull(),
  actorId: text("actor_id"),
});

export const wallets = pgTable("wallets", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  network: network(),
  address: bytesOfHex("address").notNull(),
  passkeyId: text("passkey_id").notNull(),
  factory: hex("factory").notNull(),
  owners: text("owners").array().$type<Hex[]>().notNull(),
  saltNonce: int8("salt_nonce").notNull(),
  deployedAt: time("deployed_at"),
  indexedFrom: int8("indexed_from"),
  backfilledAt: time("backfilled_at"),
  createdAt: time("created_at").notNull(),
  openingUnits: numeric("opening_units", { precision: 78, scale: 0, mode: "bigint" }),
  reconciledAt: time("reconciled_at"),
  differenceUnits: numeric("difference_units", { precision: 78, scale: 0, mode: "bigint" }).notNull(),
  bookedUnits: numeric("booked_units", { precision: 78, scale: 0, mode: "bigint" }).notNull(),
  bookedNumber: int8("booked_number").notNull(),
  bookedVersion: int8("booked_version").notNull(),
  isCounting: boolean("is_counting").notNull(),
  recountUnits: numeric("recount_units", { precision: 78, scale: 0, mode: "bigint" }),
  recountNumber: int8("recount_number"),
});

export const paymentLinks = pgTable("payment_links", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  network: network(),
  recipient: bytesOfHex("recipient").notNull(),
  amountUnits: int8("amount_units").notNull(),
  description: text("description").notNull(),
  status: text("status").$type<LinkStatus>().notNull(),
  exception: text("exception").$type<LinkException>().notNull(),
  refundedUnits: int8("refunded_units").notNull(),
  expiresAt: time("expires_at").notNull(),
  paidAt: time("paid_at"),
  createdAt: time("created_at").notNull(),
  updatedAt: time("updated_at").notNull(),
  cancelledAt: time("cancelled_at"),
  tag: bytesOfHex("tag"),
  payAmountUnits: int8("pay_amount_units"),
  createdBlock: int8("created_block"),
  settledBy: text("settled_by").$type<SettledBy>(),
  paidUnits: int8("paid_units"),
  reference: text("reference"),
  uniqueReference: boolean("unique_reference").notNull(),
  metadata: jsonb("metadata").$type<Record<string, string>>().notNull(),
  customerEmail: text("customer_email"),
  successUrl: text("success_url"),
  cancelUrl: text("cancel_url"),
  isReusable: boolean("is_reusable").notNull(),
  maxPayments: integer("max_payments"),
  minUnits: int8("min_units"),
  maxUnits: int8("max_units"),
  parentId: text("parent_id"),
  isDiscoverable: boolean("is_discoverable").notNull(),
  placeRank: smallint("place_rank"),
});

export const claims = pgTable("claims", {
  id: text("id").primaryKey(),
  linkId: text("link_id").notNull(),
  network: network(),
  txHash: hex("tx_hash").notNull(),
  clientAddress: hex("client_address").notNull(),
  state: text("state").$type<ClaimState>().notNull(),
  reason: text("reason"),
  looks: integer("looks").notNull(),
  leaseUntil: time("lease_until").notNull(),
  requestId: text("request_id"),
  createdAt: time("created_at").notNull(),
  updatedAt: time("updated_at").notNull(),
  proof: text("proof").$type<"EOA" | "CONTRACT">(),
  isEarly: boolean("is_early").notNull(),
  payerLanguage: text("payer_language").$type<Language>(),
});

export const payments = pgTable("payments", {
  id: text("id").primaryKey(),
  linkId: text("link_id"),
  facilitatorUserId: text("facilitator_user_id"),
  facilitatorKeyId: text("facilitator_key_id"),
  network: network(),
  token: bytesOfHex("token").notNull(),
  payer: bytesOfHex("payer").notNull(),
  payerKind: text("payer_kind").$type<"EOA" | "CONTRACT">().notNull(),
  recipient: bytesOfHex("recipient").notNull(),
  amountUnits: int8("amount_units").notNull(),
  validAfter: uint256("valid_after").notNull(),
  validBefore: uint256("valid_before").notNull(),
  nonce: bytesOfHex("nonce").notNull(),
  signature: bytesOfHex("signature").notNull(),
  state: text("state").$type<PaymentState>().notNull(),
  reason: text("reason"),
  reasonText: text("reason_text"),
  relayId: int8("relay_id"),
  txHash: bytesOfHex("tx_hash"),
  logIndex: integer("log_index"),
  blockNumber: int8("block_number"),
  refusals: integer("refusals").notNull(),
  reverts: integer("reverts").notNull(),
  alone: boolean("alone").notNull(),
  unavailableSince: time("unavailable_since"),
  nextTryAt: time("next_try_at").notNull(),
  idempotencyKey: text("idempotency_key"),
  toldTo: text("told_to"),
  answerState: text("answer_state").$type<"SENDING" | "SENT" | "CUT">(),
  answerClaim: text("answer_claim"),
  answerDigest: bytea("answer_digest"),
  answeredAt: time("answered_at"),
  doubtSince: time("doubt_since"),
  doubtUntil: time("doubt_until"),
  createdAt: time("created_at").notNull(),
  updatedAt: time("updated_at").notNull(),
  acceptedBlock: int8("accepted_block"),
  payerLanguage: text("payer_language").$type<Language>(),
});

export const relays = pgTable("relays", {
  id: int8("id").primaryKey(),
  network: network(),
  relayer: hex("relayer").notNull(),
  nonce: int8("nonce").notNull(),
  kind: text("kind").$type<"PAYMENTS" | "DEPLOY" | "NOOP" | "OPERATIONS">().notNull(),
  state: text("state").$type<"SIGNED" | "BROADCAST" | "MINED" | "CONFIRMED" | "LOST">().notNull(),
  callTo: hex("call_to").notNull(),
  callDataStart: integer("call_data_start").notNull(),
  callDataBytes: integer("call_data_bytes").notNull(),
  gasLimit: int8("gas_limit").notNull(),
  txHash: hex("tx_hash"),
  blockNumber: int8("block_number"),
  blockHash: hex("block_hash"),
  succeeded: boolean("succeeded"),
  gasUsed: int8("gas_used"),
  feeWei: uint256("fee_wei"),
  createdAt: time("created_at").notNull(),
  minedAt: time("mined_at"),
});

export const cursors = pgTable("cursors", {
  network: text("network").$type<NetworkId>().primaryKey(),
  number: int8("number").notNull(),
  hash: hex("hash").notNull(),
  epoch: int8("epoch").notNull(),
  headNumber: int8("head_number").notNull(),
  headTime: time("head_time"),
  finalizedNumber: int8("finalized_number").notNull(),
  lastError: text("last_error"),
  lastErrorAt: time("last_error_at"),
  updatedAt: time("updated_at").notNull(),
  recheckedNumber: int8("rechecked_number").notNull(),
  accountLogsNumber: int8("account_logs_number"),
  ledgerVersion: int8("ledger_version").notNull(),
  reconciledNumber: int8("reconciled_number").notNull(),
  recountedWallet: text("recounted_wallet").notNull(),
  startedAt: time("started_at"),
});

export const transfers = pgTable("transfers", {
  id: int8("id").primaryKey(),
  network: network(),
  blockNumber: int8("block_number").notNull(),
  blockHash: bytesOfHex("block_hash").notNull(),
  blockTime: time("block_time").notNull(),
  txHash: bytesOfHex("tx_hash").notNull(),
  logIndex: integer("log_index").notNull(),
  fromAddress: bytesOfHex("from_address").notNull(),
  toAddress: bytesOfHex("to_address").notNull(),
  amountUnits: uint256("amount_units").notNull(),
  authorizationNonce: bytesOfHex("authorization_nonce"),
  status: text("status").$type<"DETECTED" | "CONFIRMED" | "ORPHANED">().notNull(),
  linkId: text("link_id"),
  pays: boolean("pays").notNull(),
  paymentId: text("payment_id"),
  detectedAt: time("detected_at").notNull(),
  confirmedAt: time("confirmed_at"),
  settledBy: text("settled_by").$type<SettledBy>(),
  candidates: text("candidates").array(),
});

export const transactions = pgTable("transactions", {
  id: text("id").primaryKey(),
  network: network(),
  type: text("type").$type<TransactionType>().notNull(),
  status: text("status").$type<TransactionStatus>().notNull(),
  isSettled: boolean("is_settled").notNull(),
  owner: uuid("owner").notNull(),
  cell: smallint("cell").notNull(),
  amountUnits: uint256("amount_units").notNull(),
  counterparty: bytesOfHex("counterparty").notNull(),
  description: text("description").notNull(),
  txHash: bytesOfHex("tx_hash"),
  logIndex: integer("log_index"),
  blockNumber: int8("block_number"),
  linkId: text("link_id"),
  paymentId: text("payment_id"),
  claimId: text("claim_id"),
  transferId: int8("transfer_id"),
  failureReason: text("failure_reason"),
  detectedAt: time("detected_at").notNull(),
  confirmedAt: time("confirmed_at"),
  createdAt: time("created_at").notNull(),
  updatedAt: time("updated_at").notNull(),
  settledBy: text("settled_by").$type<SettledBy>(),
  candidates: text("candidates").array(),
  operationItemId: int8("operation_item_id"),
  operationId: text("operation_id"),
  operationNote: text("operation_note"),
  reference: text("reference"),
});

export const events = pgTable("events", {
  id: int8("id").primaryKey(),
  userId: text("user_id").notNull(),
  type: text("type").notNull(),
  subjectId: text("subject_id").notNull(),
  data: jsonb("data").notNull(),
  writtenBy: xid8("written_by").notNull(),
  epoch: integer("epoch").notNull(),
  publicId: uuid("public_id").notNull(),
  endedBefore: xid8("ended_before"),
  createdAt: time("created_at").notNull(),
});

export type User = typeof users.$inferSelect;
export type Otp = typeof otps.$inferSelect;
export type Passkey = typeof passkeys.$inferSelect;
export type Challenge = typeof challenges.$inferSelect;
export type Session = typeof sessions.$inferSelect;
export type ApiKey = typeof apiKeys.$inferSelect;
export type SecurityEvent = typeof securityEvents.$inferSelect;
export type Wallet = typeof wallets.$inferSelect;
export type PaymentLink = typeof paymentLinks.$inferSelect;
export type Claim = typeof claims.$inferSelect;
export type Payment = typeof payments.$inferSelect;
export type Relay = typeof relays.$inferSelect;
export type Cursor = typeof cursors.$inferSelect;
