/**
 * An ERC-3009 authorization: what a payer signed, parsed from its wire formats.
 * Times are Unix seconds, values micro-USDC, addresses and nonce lower-case hex.
 */
import type { Hex } from "./networks.ts";

export type Authorization = {
  readonly from: Hex;
  readonly to: Hex;
  readonly value: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly nonce: Hex;
};

/** `ecdsa` is r, s, v (65 bytes, v 27 or 28, low s) as the token requires; absent when the bytes are not an ECDSA signature. */
export type PayerSignature = { readonly bytes: Hex; readonly ecdsa: Hex | undefined };

const UINT256_MAX = 2n ** 256n - 1n;
/** Order of secp256k1 and the highest `s` the token accepts (EIP-2). */
const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const LOW_S_MAX = CURVE_ORDER / 2n;
const SIGNATURE_MAX_BYTES = 8192;

const ADDRESS = /^0x[0-9a-f]{40}$/i;
const WORD = /^0x[0-9a-f]{64}$/i;
const BYTES = /^0x(?:[0-9a-f]{2})*$/i;
const DECIMAL = /^(?:0|[1-9]\d{0,77})$/;

/** Parses the six wire fields (integers as JSON numbers or decimal text); undefined when one is malformed. */
export function parseAuthorization(
  fields: Readonly<Record<keyof Authorization, unknown>>,
): Authorization | undefined {
  const value = parseUint(fields.value);
  const validAfter = parseUint(fields.validAfter);
  const validBefore = parseUint(fields.validBefore);
  if (value === undefined || validAfter === undefined || validBefore === undefined) return undefined;
  if (!matches(fields.from, ADDRESS) || !matches(fields.to, ADDRESS) || !matches(fields.nonce, WORD)) {
    return undefined;
  }
  const from = lower(fields.from);
  return { from, to: lower(fields.to), value, validAfter, validBefore, nonce: lower(fields.nonce) };
}

/** Reads a `signature` field: any bytes (a contract may define its own format), and their ECDSA form if they have one. */
export function parseSignature(text: unknown): PayerSignature | undefined {
  if (!matches(text, BYTES) || text.length <= 2 || text.length > 2 + 2 * SIGNATURE_MAX_BYTES)
    return undefined;
  const bytes = lower(text);
  return { bytes, ecdsa: toEcdsa(bytes) };
}

/** Reads the `v, r, s` form (v 0, 1, 27 or 28 as number or decimal text). */
export function parseVrs(v: unknown, r: unknown, s: unknown): PayerSignature | undefined {
  const parity = parseUint(v);
  if (parity === undefined || parity > 255n || !matches(r, WORD) || !matches(s, WORD)) return undefined;
  return parseSignature(`0x${r.slice(2)}${s.slice(2)}${parity.toString(16).padStart(2, "0")}`);
}

/** 65 bytes, or 64 in compact form (EIP-2098), in the one form the token accepts; undefined when out of range. */
function toEcdsa(bytes: Hex): Hex | undefined {
  const digits = bytes.slice(2);
  if (digits.length !== 128 && digits.length !== 130) return undefined;
  const r = BigInt(`0x${digits.slice(0, 64)}`);
  const word = BigInt(`0x${digits.slice(64, 128)}`);
  const isCompact = digits.length === 128;
  const s = isCompact ? BigInt.asUintN(255, word) : word;
  const v = isCompact ? Number(word >> 255n) : Number(`0x${digits.slice(128)}`);
  const parity = v >= 27 ? v - 27 : v;
  if (parity > 1 || r === 0n || r >= CURVE_ORDER || s === 0n || s >= CURVE_ORDER) return undefined;
  const isHigh = s > LOW_S_MAX;
  const lowS = isHigh ? CURVE_ORDER - s : s;
  const lowParity = isHigh ? 1 - parity : parity;
  return `0x${digits.slice(0, 64)}${lowS.toString(16).padStart(64, "0")}${lowParity === 0 ? "1b" : "1c"}`;
}

function parseUint(value: unknown): bigint | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
  if (typeof value !== "string" || !DECIMAL.test(value)) return undefined;
  const number = BigInt(value);
  return number <= UINT256_MAX ? number : undefined;
}

function matches(value: unknown, pattern: RegExp): value is string {
  return typeof value === "string" && pattern.test(value);
}

/** Called only with text that matched a hex pattern. */
function lower(text: string): Hex {
  return text.toLowerCase() as Hex;
}

/** The identity of an authorization (EIP-3009: a payer uses a nonce once). */
export function authorizationKey(payer: Hex, nonce: Hex): string {
  return `${payer}:${nonce}`;
}

/** An authorization that a block executed or cancelled. `txHash`: the transaction, where known. */
export type AuthorizationKey = { payer: Hex; nonce: Hex; txHash?: Hex | undefined };
