/**
 * User operations that move money out of a passkey wallet: whom they may pay, what their states mean, and which transfers on the
 * chain are theirs. The owner's passkey signs the operation's hash, which commits to the wallet, its nonce, the network, and call data
 * that names each recipient, each amount and this operation's id (core/chain/user-operation-hash.ts): a signature is good for exactly
 * these payments, once, and is accepted for ten minutes after preparation. Pure.
 */
import { getAddress } from "viem-modules/utils/address/getAddress.js";
import { CONTRACTS, type Hex, NETWORKS, type NetworkId } from "./networks.ts";

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

/** Why an operation is FAILED. NOT_SENT and NOT_RUN are ours; the others are the chain's. */
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
/** From preparation: a signature that arrives later is refused. */
export const OPERATION_LIFE_MS = 10 * 60_000;

/** Sends that failed within an hour at the relayers' cost: the money is moved between simulation and block. Then the user pauses. */
export const SEND_FAILURES_MAX = 3;
/** An account is deployed at our cost, where gas costs money, only for a wallet that holds so many times the least send. */
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

/** What a preparation showed, kept so that showing it again says the same. */
export type OperationTerms = {
  /** Passkeys that are owners, with the index each signs under on this network. */
  owners: { passkeyId: string; index: number }[];
  warnings: { code: OperationWarning; message: string }[];
  /** Decimal text. */
  balanceAfter: string;
  deploysWallet: boolean;
};

/** A transfer inside an operation. */
export type OperationItem = { readonly to: Hex; readonly amountUnits: bigint };

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const ZERO_ADDRESS = `0x${"0".repeat(40)}`;
const HEX_ADDRESS_PREFIX = 2;

export type RecipientIssue =
  | "invalid"
  | "bad_checksum"
  | "zero_address"
  | "token_contract"
  | "not_a_recipient"
  | "own_wallet";

/** A recipient as a person typed it, lower case, or what is wrong with it. Mixed case must be a correct EIP-55 checksum. */
export function parseRecipient(
  text: string,
  { network, wallet }: { network: NetworkId; wallet: Hex },
): { ok: true; address: Hex } | { ok: false; issue: RecipientIssue } {
  if (!ADDRESS.test(text)) return { ok: false, issue: "invalid" };
  const address = text.toLowerCase() as Hex;
  const digits = text.slice(HEX_ADDRESS_PREFIX);
  const isMixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
  if (isMixed && getAddress(address) !== text) return { ok: false, issue: "bad_checksum" };
  const issue = issueOf(address, network, wallet);
  return issue ? { ok: false, issue } : { ok: true, address };
}

function issueOf(address: Hex, network: NetworkId, wallet: Hex): RecipientIssue | undefined {
  if (address === ZERO_ADDRESS) return "zero_address";
  if (address === NETWORKS[network].usdc.address) return "token_contract";
  if ((Object.values(CONTRACTS) as Hex[]).includes(address)) return "not_a_recipient";
  return address === wallet ? "own_wallet" : undefined;
}

/** Same first and last four hex digits, but another address: what address poisoning relies on. */
export function resembles(address: Hex, other: Hex): boolean {
  return (
    address !== other && address.slice(0, 6) === other.slice(0, 6) && address.slice(-4) === other.slice(-4)
  );
}

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

/** A row that ended without its event may still be executed while the account's nonce is free: signatures never expire (EntryPoint v0.6). */
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
