/**
 * Checks what a passkey is about to sign: calls and hash are computed again from what the page shows, with this page's own contract
 * addresses, and the passkey signs only when the service's bytes are the same.
 */
import { keccak256 } from "viem";
import { bytesOfBase64Url, hexOfBytes } from "../../chain/bytes.ts";
import { CONTRACTS, type Hex, networkOf } from "../../chain/networks.ts";

export type Payment = { readonly to: string; readonly units: bigint };

export type Offered = {
  readonly userOpHash: string;
  readonly chainId: number;
  readonly entryPoint: string;
  readonly passkeyChallenge: { readonly challenge: string };
  readonly userOperation: {
    readonly sender: string;
    readonly nonce: string;
    readonly initCode: string;
    readonly callData: string;
    readonly callGasLimit: string;
    readonly verificationGasLimit: string;
    readonly preVerificationGas: string;
    readonly maxFeePerGas: string;
    readonly maxPriorityFeePerGas: string;
    readonly paymasterAndData: string;
  };
};

export type Shown = {
  readonly chainId: number;
  readonly from: string;
  readonly payments: readonly Payment[];
  readonly tag: string;
};

/** The service offers something other than what is shown; `field` says where they differ. */
export class ForeignOperation extends Error {
  readonly field: string;
  constructor(field: string) {
    super(`the offered operation has another ${field} than what is shown`);
    this.field = field;
  }
}

const WORD = 64;
const TRANSFER = "a9059cbb";
const EXECUTE = "b61d27f6";
const EXECUTE_BATCH = "34fcd5be";
/** `REPLAYABLE_NONCE_KEY` of the account. */
const ANY_CHAIN_NONCE_KEY = 8453n;
/** Of an operation's or a link's tag, which follows a transfer's arguments; the token ignores it. */
const TAG_DIGITS = 32;
const LINK_TAG_END = 2 + TAG_DIGITS;

/** Throws ForeignOperation unless the offered operation does exactly what is shown. */
export function checkOperation(offered: Offered, shown: Shown): void {
  const network = networkOf(shown.chainId);
  if (!network) refuse("chainId");
  checkCall(offered, { ...shown, callData: encodeCalls(network.usdc, shown.payments, shown.tag) });
}

/** The same for any call of the account. `chainId` null: signed for every network, under a nonce of the key that belongs to such calls. */
export function checkCall(
  offered: Omit<Offered, "chainId"> & { readonly chainId: number | null },
  shown: { readonly chainId: number | null; readonly from: string; readonly callData: string },
): void {
  const { userOperation: operation } = offered;
  if (offered.chainId !== shown.chainId) refuse("chainId");
  if (shown.chainId === null && BigInt(operation.nonce) >> 64n !== ANY_CHAIN_NONCE_KEY) refuse("nonce");
  if (offered.entryPoint.toLowerCase() !== CONTRACTS.entryPoint) refuse("entryPoint");
  if (operation.sender.toLowerCase() !== shown.from.toLowerCase()) refuse("sender");
  if (operation.callData.toLowerCase() !== shown.callData) refuse("callData");
  // an account's own code, a paymaster or a fee would do more than is shown
  if (operation.initCode !== "0x" || operation.paymasterAndData !== "0x") refuse("initCode");
  if (BigInt(operation.maxFeePerGas) !== 0n || BigInt(operation.preVerificationGas) !== 0n)
    refuse("maxFeePerGas");
  const hash = hashOperation(operation, shown.chainId);
  if (offered.userOpHash.toLowerCase() !== hash) refuse("userOpHash");
  if (hexOfBytes(bytesOfBase64Url(offered.passkeyChallenge.challenge)) !== hash) refuse("challenge");
}

function refuse(field: string): never {
  throw new ForeignOperation(field);
}

/** The account's call: one transfer by `execute`, several by `executeBatch`, without ETH. Lower case. */
export function encodeCalls(usdc: Hex, payments: readonly Payment[], tag: string): Hex {
  const calls = payments.map((payment) => encodeCall(usdc, payment, tag));
  const [only] = calls;
  if (only === undefined) throw new ForeignOperation("calls");
  if (calls.length === 1) return `0x${EXECUTE}${only}`;
  const offsets = calls.map((call, index) => word(BigInt(32 * calls.length + (index * call.length) / 2)));
  return `0x${EXECUTE_BATCH}${word(32n)}${word(BigInt(calls.length))}${offsets.join("")}${calls.join("")}`;
}

/** Target, value, offset and length of the data, data. */
function encodeCall(usdc: Hex, { to, units }: Payment, tag: string): string {
  return encodeTarget(usdc, `${TRANSFER}${addressWord(to)}${word(units)}${tag}`);
}

function encodeTarget(target: string, data: string): string {
  return `${addressWord(target)}${word(0n)}${word(96n)}${encodeBytes(data)}`;
}

/** Length, then the digits padded to whole words. */
export const encodeBytes = (digits: string) => `${word(BigInt(digits.length / 2))}${padded(digits)}`;

/** The account's call of one contract without ETH: `execute`. */
export const encodeExecute = (target: string, data: string): Hex =>
  `0x${EXECUTE}${encodeTarget(target, data)}`;

const padded = (data: string) => data.padEnd(Math.ceil(data.length / WORD) * WORD, "0");

/** Identifies the operation by its id, and the link whose money is refunded: a rebuilt ledger finds both. */
export function tagOf(operationId: string, linkId?: string): string {
  const own = operationId.slice(-TAG_DIGITS);
  if (linkId === undefined) return own;
  return own + keccak256(new TextEncoder().encode(`link-tag:${linkId}`)).slice(2, LINK_TAG_END);
}

/** The recipient of a batch's last transfer: the service's fee, which is shown like every other recipient. */
export function lastRecipient(callData: string, tag: string): string {
  const data = padded(`${TRANSFER}${"0".repeat(2 * WORD)}${tag}`);
  const at = callData.length - data.length + TRANSFER.length + (WORD - 40);
  return `0x${callData.slice(at, at + 40)}`;
}

/** EntryPoint v0.6: `getUserOpHash`; without a chain the account's own `getUserOpHashWithoutChainId`. */
export function hashOperation(operation: Offered["userOperation"], chainId: number | null): Hex {
  const packed = [
    addressWord(operation.sender),
    word(BigInt(operation.nonce)),
    hashWord("0x"),
    hashWord(operation.callData as Hex),
    word(BigInt(operation.callGasLimit)),
    word(BigInt(operation.verificationGasLimit)),
    word(BigInt(operation.preVerificationGas)),
    word(BigInt(operation.maxFeePerGas)),
    word(BigInt(operation.maxPriorityFeePerGas)),
    hashWord("0x"),
  ].join("");
  const chain = chainId === null ? "" : word(BigInt(chainId));
  return keccak256(`0x${hashWord(`0x${packed}`)}${addressWord(CONTRACTS.entryPoint)}${chain}`);
}

const hashWord = (data: Hex) => keccak256(data).slice(2);
export const word = (value: bigint) => value.toString(16).padStart(WORD, "0");
const addressWord = (address: string) => address.slice(2).toLowerCase().padStart(WORD, "0");

const AMOUNT = /^(\d{1,12})(?:[.,](\d{1,6}))?$/;

/** Micro-USDC; undefined when the text is not an amount with at most 6 decimals. */
export function readUnits(text: string): bigint | undefined {
  const [, whole, fraction = ""] = AMOUNT.exec(text.trim()) ?? [];
  return whole === undefined ? undefined : BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, "0"));
}

export function writeUnits(units: bigint): string {
  return `${units / 1_000_000n}.${(units % 1_000_000n).toString().padStart(6, "0")}`;
}
