/** The account's calls that change its owners, rebuilt from what the page shows before a passkey signs them. */
import { hexOfBytes } from "../../chain/bytes.ts";
import type { Hex } from "../../chain/networks.ts";
import { encodeBytes, encodeExecute, ForeignOperation, word } from "../send/check-signed-operation.ts";

const ADD_PUBLIC_KEY = "29565e3b";
const ADD_ADDRESS = "0f0f3f24";
const REMOVE_AT_INDEX = "89625b57";
const WITHOUT_CHAIN = "2c2abd1e";
const WORD = 64;
const SELECTOR_END = 10;
const ID_DIGITS = 32;
const KEY_DIGITS = 128;

/** Adds the key of a passkey on every network. `point`: x and y, 128 digits. */
export function encodeAddPasskey(point: string, tag: string): Hex {
  return encodeAnyChain(`${ADD_PUBLIC_KEY}${point}${tag}`);
}

/** The same as a call by an address that owns the account, on one network. */
export const encodeOwnPasskey = (point: string): Hex => `0x${ADD_PUBLIC_KEY}${point}`;

/** Adds an address on every network. */
export function encodeAddAddress(address: string, tag: string): Hex {
  return encodeAnyChain(`${ADD_ADDRESS}${word(BigInt(address))}${tag}`);
}

const encodeAnyChain = (data: string): Hex =>
  `0x${WITHOUT_CHAIN}${word(32n)}${word(1n)}${word(32n)}${encodeBytes(data)}`;

/** `owner`: its bytes as stored on the chain, with 0x. */
export function encodeRemoveOwner(
  wallet: string,
  { index, owner }: { index: number; owner: Hex },
  tag: string,
): Hex {
  const data = `${REMOVE_AT_INDEX}${word(BigInt(index))}${word(64n)}${encodeBytes(owner.slice(2))}${tag}`;
  return encodeExecute(wallet, data);
}

/** The owner that an offered removal names. Throws ForeignOperation unless its id is the one that was chosen. */
export async function removedOwner(callData: string, ownerId: string): Promise<Hex> {
  // selector; target, value, offset and length of the data; then selector, index and offset of the owner's bytes
  const at = SELECTOR_END + 4 * WORD + 8 + 2 * WORD;
  const length = Number.parseInt(callData.slice(at, at + WORD), 16) * 2;
  if (!(length === WORD || length === KEY_DIGITS)) throw new ForeignOperation("callData");
  return ownerWithId(callData.slice(at + WORD, at + WORD + length), ownerId);
}

/** The key that an offered addition for every network adds: x and y, 128 digits. Throws ForeignOperation unless its id is the one that is shown. */
export async function addedPoint(callData: string, ownerId: string): Promise<string> {
  // selector; offset and number of the calls, offset and length of the only one; its selector
  const at = SELECTOR_END + 4 * WORD + 8;
  return (await ownerWithId(callData.slice(at, at + KEY_DIGITS), ownerId)).slice(2);
}

async function ownerWithId(digits: string, ownerId: string): Promise<Hex> {
  const owner: Hex = `0x${digits.toLowerCase()}`;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(owner));
  const id = hexOfBytes(new Uint8Array(digest)).slice(2, 2 + ID_DIGITS);
  if (ownerId !== `owner_${id}`) throw new ForeignOperation("ownerId");
  return owner;
}

/** x and y of a new passkey's key, from the SubjectPublicKeyInfo that the browser gives (RFC 5480: an uncompressed point at the end). */
export function pointOf(publicKey: Uint8Array): string {
  const point = publicKey.slice(-KEY_DIGITS / 2 - 1);
  if (point[0] !== 4 || point.length !== KEY_DIGITS / 2 + 1) throw new ForeignOperation("publicKey");
  return hexOfBytes(point.slice(1)).slice(2);
}
