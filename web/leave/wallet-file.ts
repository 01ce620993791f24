/** Reads a wallet file without trusting anything that can be computed: the address comes from the owners, the contracts from this page. */
import { encodeAbiParameters, keccak256 } from "viem";
import { bytesOfBase64Url } from "../chain/bytes.ts";
import { CONTRACTS, type Hex, networkOf } from "../chain/networks.ts";
import { Fault } from "./user-error.ts";

export type Credential = { readonly id: string; readonly transports: readonly string[] };

export type WalletFile = {
  readonly rpId: string;
  readonly credentials: readonly Credential[];
  /** The first owners, which determine the address. */
  readonly owners: readonly Hex[];
  readonly saltNonce: bigint;
  readonly address: Hex;
  readonly chainIds: readonly number[];
};

const SIZE_MAX = 100_000;
const LIST_MAX = 100;
const HOST = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
const ADDRESS = /^0x[0-9a-f]{40}$/;
/** A passkey's x and y, or an address padded to one word. */
const OWNER = /^0x([0-9a-f]{128}|0{24}[0-9a-f]{40})$/;
const TRANSPORTS: readonly string[] = ["ble", "hybrid", "internal", "nfc", "usb"];
/** Creation code of an ERC-1967 proxy around the implementation's address. */
const PROXY_CODE = [
  "603d3d8160223d3973",
  "60095155f3363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc545af43d6000803e6038573d6000fd5b3d6000f3",
] as const;

/** Throws Fault when it is not a wallet file, or contradicts itself or this page. */
export function readWalletFile(text: string): WalletFile {
  if (text.length > SIZE_MAX) throw new Fault("This file is too large to be a wallet file.");
  const fields = parseObject(text);
  if (fields.version !== 1)
    throw new Fault("This is no wallet file of version 1, which is the one this page reads.");
  const owners = listOf(fields.owners, "owners").map((owner) => matched(owner, OWNER, "owners"));
  if (owners.length === 0) throw new Fault("The wallet file names no owner.");
  const salt = matched(String(fields.saltNonce ?? "0"), /^\d{1,77}$/, "saltNonce");
  const file = {
    rpId: matched(fields.rpId, HOST, "rpId"),
    credentials: listOf(fields.credentials, "credentials").map(readCredential),
    owners: owners as Hex[],
    saltNonce: BigInt(salt),
    address: matched(fields.address, ADDRESS, "address") as Hex,
    chainIds: listOf(fields.networks, "networks").map(readNetwork),
  };
  expectOurs(fields.factory, CONTRACTS.factory, "factory");
  expectOurs(fields.implementation, CONTRACTS.implementation, "implementation");
  const computed = accountAddress(file.owners, file.saltNonce);
  if (computed !== file.address)
    throw new Fault(
      `The wallet file is damaged: its owners give the address ${computed}, but it says ${file.address}.`,
    );
  return file;
}

/** The account's address (CREATE2, EIP-1014): the same on every network, before and after deployment. */
export function accountAddress(owners: readonly Hex[], saltNonce: bigint): Hex {
  const salt = keccak256(
    encodeAbiParameters([{ type: "bytes[]" }, { type: "uint256" }], [owners, saltNonce]),
  );
  const initCode: Hex = `0x${PROXY_CODE[0]}${CONTRACTS.implementation.slice(2)}${PROXY_CODE[1]}`;
  const hash = keccak256(`0xff${CONTRACTS.factory.slice(2)}${salt.slice(2)}${keccak256(initCode).slice(2)}`);
  return `0x${hash.slice(26)}`;
}

function readCredential(value: unknown): Credential {
  const { id, transports } = value as { id?: unknown; transports?: unknown };
  if (typeof id !== "string" || !/^[A-Za-z0-9_-]{1,1400}$/.test(id))
    throw new Fault("The wallet file names a passkey without an id.");
  bytesOfBase64Url(id);
  const known = Array.isArray(transports) ? transports.filter((one) => TRANSPORTS.includes(one)) : [];
  return { id, transports: known as string[] };
}

function readNetwork(value: unknown): number {
  const { chainId, entryPoint, usdc } = value as { chainId?: unknown; entryPoint?: unknown; usdc?: unknown };
  if (typeof chainId !== "number") throw new Fault("The wallet file names a network without a chain id.");
  expectOurs(entryPoint, CONTRACTS.entryPoint, "entryPoint");
  const network = networkOf(chainId);
  if (network) expectOurs(usdc, network.usdc, `USDC of ${network.name}`);
  return chainId;
}

function expectOurs(given: unknown, ours: Hex, what: string): void {
  if (typeof given === "string" && given.toLowerCase() === ours) return;
  throw new Fault(
    `The wallet file names another contract than this page (${what}: ${show(given)}, expected ${ours}). Do not use it: somebody may have changed it.`,
  );
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Fault("This is no wallet file: it is not JSON.", { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Fault("This is no wallet file: it holds no object.");
  return value as Record<string, unknown>;
}

/** Objects and strings only: reading fields of other values would throw. */
function listOf(value: unknown, name: string): unknown[] {
  const isList = Array.isArray(value) && value.length <= LIST_MAX && value.every((one) => one !== null);
  if (isList) return value;
  throw new Fault(`This is no complete wallet file: "${name}" is missing.`);
}

function matched(value: unknown, pattern: RegExp, name: string): string {
  const text = typeof value === "string" ? value.toLowerCase() : "";
  if (pattern.test(text)) return text;
  throw new Fault(`This is no complete wallet file: "${name}" is missing or malformed.`);
}

function show(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 60);
}
