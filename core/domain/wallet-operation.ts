/**
 * User operations of a passkey wallet: their states (transitions: ARCHITECTURE.md, States), and which transfers on the chain belong to
 * them. Whom a send or refund may pay: recipient.ts. The owner's passkey signs the operation's hash, which commits to the wallet, its nonce,
 * the network, and call data that names each recipient, each amount and this operation's id (core/chain/user-operation-hash.ts): a
 * signature is valid for exactly these payments, once, and is accepted for ten minutes after preparation (operation-lifetime.ts). Pure.
 */
import type { Hex } from "./networks.ts";

export const OPERATION_KINDS = ["SEND", "REFUND", "OWNERS"] as const;
export type OperationKind = (typeof OPERATION_KINDS)[number];

export const OPERATION_STATES = [
  "AWAITING_SIGNATURE",
  "QUEUED",
  "SIGNED",
  "BROADCAST",
  "MINED",
  "CONFIRMED",
  "FAILED",
  "EXPIRED",
  "CANCELLED",
] as const;
export type OperationState = (typeof OPERATION_STATES)[number];

/** Why an operation FAILED. NOT_SENT and NOT_RUN are our decisions; the others come from the chain. */
export const OPERATION_FAILURES = [
  "INSUFFICIENT_FUNDS",
  "PAYMENT_NOT_ALLOWED",
  "SIGNATURE_REFUSED",
  "ACCOUNT_CHANGED",
  "NONCE_TAKEN",
  "NOT_SENT",
  "NOT_RUN",
  "REVERTED",
] as const;
export type OperationFailure = (typeof OPERATION_FAILURES)[number];

export const PAYOUT_RECIPIENTS_MAX = 100;
export const NOTE_MAX_CHARS = 500;
/** Maximum sends per hour that fail at the relayers' cost, when the money is moved between simulation and block. Then the user must pause. */
export const SEND_FAILURES_MAX = 3;
/** Where gas costs money, an account is deployed at our cost only for a wallet that holds this many times the minimum send. */
export const DEPLOYMENT_MINIMUM_SENDS = 10n;
/** Of the item that pays the service, in the sender's history. */
export const FEE_NOTE = "Service fee";

export const OPERATION_WARNINGS = [
  "new_recipient",
  "resembles_known_recipient",
  "recipient_is_contract",
  "payer_may_be_an_exchange",
  "payer_is_a_contract",
  "single_owner",
  "owner_on_other_network",
] as const;
export type OperationWarning = (typeof OPERATION_WARNINGS)[number];

/** What a preparation showed, stored so that a repeated request shows the same. */
export type OperationTerms = {
  /** Passkeys that are owners, with the index each signs under on this network. */
  owners: { passkeyId: string; index: number }[];
  warnings: { code: OperationWarning; message: string }[];
  /** Decimal text. */
  balanceAfter: string;
  deploysWallet: boolean;
  /** The chain's newest block when the nonce was read. Not kept by earlier versions. */
  headNumber?: number;
};

/** A transfer inside an operation. */
export type OperationItem = { readonly to: Hex; readonly amountUnits: bigint };

const TAG_DIGITS = 32;

/** The operation id's 16 random bytes, written behind each inner call: no two preparations have the same hash. */
export function operationTag(id: string): Hex {
  return `0x${id.slice(-TAG_DIGITS)}`;
}

/** A `Transfer` log of an operation's transaction. */
export type PlacedTransfer = OperationItem & { readonly logIndex: number };

/**
 * Which transfer each item made: in order, each log at most once. `transfers` are those from the account between the EntryPoint's
 * previous event in the transaction and the operation's own, in log order.
 */
export function pairTransfers<Item extends OperationItem, Transfer extends PlacedTransfer>(
  items: readonly Item[],
  transfers: readonly Transfer[],
): Map<Item, Transfer> {
  const pairs = new Map<Item, Transfer>();
  let next = 0;
  for (const item of items) {
    const at = transfers.findIndex(
      ({ to, amountUnits }, index) => index >= next && to === item.to && amountUnits === item.amountUnits,
    );
    const transfer = transfers[at];
    if (!transfer) continue;
    pairs.set(item, transfer);
    next = at + 1;
  }
  return pairs;
}

/**
 * The same for an operation some of whose transfers were stored before the others were read: those keep the items they are `bound` to. Only
 * equal items can have changed places, so the order of the others does not matter.
 */
export function pairRemaining<Item extends OperationItem, Transfer extends PlacedTransfer>(
  items: readonly Item[],
  transfers: readonly Transfer[],
  bound: ReadonlyMap<Item, Transfer>,
): Map<Item, Transfer> {
  const pairs = new Map(bound);
  const taken = new Set(bound.values());
  for (const item of items) {
    if (pairs.has(item)) continue;
    const transfer = transfers.find(
      (one) => !taken.has(one) && one.to === item.to && one.amountUnits === item.amountUnits,
    );
    if (!transfer) continue;
    pairs.set(item, transfer);
    taken.add(transfer);
  }
  return pairs;
}

/** An operation that ended without its event may still be executed while its nonce is unused: signatures never expire (EntryPoint v0.6). */
export function isStillPossible({
  state,
  isNonceSpent,
}: {
  state: OperationState;
  isNonceSpent: boolean;
}): boolean {
  const hasEnded = state === "EXPIRED" || state === "CANCELLED" || state === "FAILED";
  return hasEnded && !isNonceSpent;
}
