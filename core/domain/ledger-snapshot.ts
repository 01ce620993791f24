/** The part of the ledger that attribution needs: transfers, and the links, payments, claims and assignments they could settle. */
import type { Hex } from "./networks.ts";
import type { SettledBy } from "./settled-by.ts";

export type AttributableTransfer = {
  txHash: Hex;
  logIndex: number;
  from: Hex;
  to: Hex;
  amountUnits: bigint;
  blockNumber: number;
  blockTimeMs: number;
  /** Nonce of the authorization the transfer executed (EIP-3009). */
  authorizationNonce: Hex | undefined;
  /** 16 bytes of its calldata, or of our relay's, that may be a link's tag. */
  tag?: Hex | undefined;
  /** Whether the tag was found in one of our relays: such a transfer pays only the link it names. */
  isRelayed?: boolean | undefined;
};

export type LogPlace = { blockNumber: number; logIndex: number };

export type LinkFacts = {
  id: string;
  recipient: Hex;
  tag: Hex | undefined;
  amountUnits: bigint;
  payAmountUnits: bigint | undefined;
  createdAtMs: number;
  /** The indexer's cursor when the link was created: only later blocks can pay it. Undefined: judged by time. */
  createdBlock: number | undefined;
  expiresAtMs: number;
  cancelledAtMs: number | undefined;
  /** Whether the ledger contains a transfer that pays it. */
  isTaken: boolean;
  /** Position of that transfer: before it the link was unpaid. */
  paidAt?: LogPlace | undefined;
  livePaymentId: string | undefined;
  /** The merchant's settings. */
  matchByAmount: boolean;
  trustsEarlyClaims: boolean;
  /** A use of a reusable link: its plain amount proves nothing, since every visitor may open uses of any amount. */
  isAddressed?: boolean;
};

/** When a payment was accepted, and whether we executed it: what `isTimely` judges. */
export type AcceptanceFacts = {
  acceptedAtMs: number;
  /** The indexer's cursor when it was accepted. */
  acceptedBlock: number | undefined;
  /** Hashes of transactions of ours that carried it. */
  relayHashes: readonly Hex[];
  /** Settled by a transfer that a reorganisation may have removed since. */
  wasSettled: boolean;
  /** When it was accepted, its authorization had been executed in a block that a reorganisation has removed since. */
  wasPublic: boolean;
};

export type PaymentFacts = AcceptanceFacts & {
  id: string;
  linkId: string;
  payer: Hex;
  nonce: Hex;
  recipient: Hex;
  amountUnits: bigint;
  isFailed: boolean;
};

export type ClaimFacts = {
  id: string;
  linkId: string;
  txHash: Hex;
  clientAddress: Hex;
  isProven: boolean;
  /** Stored before the transfer was seen in a block, and no other link's claim names the transaction. */
  isEarly: boolean;
};

/** A merchant's assignment; `linkId` undefined: unassigned, unless evidence 1 to 3 names a link. */
export type AssignmentFacts = {
  txHash: Hex;
  logIndex: number;
  linkId: string | undefined;
  accept: boolean;
};

/** What was decided about a transfer when it was first seen, in a block that a reorganisation has removed since. */
export type FirstVerdict = {
  /** Its current position. */
  txHash: Hex;
  logIndex: number;
  /** Undefined: received without a link. */
  linkId: string | undefined;
  settledBy: SettledBy | undefined;
};

/** Everything in the database that the given transfers could settle. Claims are in order of creation. */
export type LedgerSnapshot = {
  links: readonly LinkFacts[];
  payments: readonly PaymentFacts[];
  claims: readonly ClaimFacts[];
  assignments: readonly AssignmentFacts[];
  firstVerdicts: readonly FirstVerdict[];
};
