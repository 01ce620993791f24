/**
 * The keys that pay the gas, from the environment: local keys for each network, and those that a remote signer holds. Only the worker
 * reads them.
 */
import { z } from "zod";
import { relayerAddress } from "../core/chain/sign-relay.ts";
import type { Hex, NetworkId } from "../core/domain/networks.ts";
import { enabledNetworks } from "../core/runtime/chain-env.ts";
import { commaList, EMPTY_LIST } from "../core/runtime/env.ts";
import { isEncryptedOrLocal } from "../core/runtime/public-url.ts";

const privateKey = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/, { error: "must be 0x and 64 hex digits", abort: true })
  .refine(isOnCurve, "must be a secp256k1 private key: not 0, and below the order of the curve");
const privateKeys = commaList.pipe(z.array(privateKey).min(1, EMPTY_LIST)).optional();

const signerAddresses = commaList
  .pipe(z.array(z.string().regex(/^0x[0-9a-fA-F]{40}$/, "must be 0x and 40 hex digits")).min(1, EMPTY_LIST))
  .optional();
const signerUrl = z
  .string()
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ""), "must be an http or https URL")
  .refine(hasReadableCredentials, "must have its user and password percent-encoded: a % in them is %25")
  .optional();
const SIGNER_URLS = [
  "RELAYER_SIGNER_URL",
  "RELAYER_SIGNER_URL_BASE",
  "RELAYER_SIGNER_URL_BASE_SEPOLIA",
] as const;

export const relayerKeysShape = {
  RELAYER_PRIVATE_KEYS: privateKeys,
  RELAYER_PRIVATE_KEYS_BASE: privateKeys,
  RELAYER_PRIVATE_KEYS_BASE_SEPOLIA: privateKeys,
  RELAYER_SIGNER_ADDRESSES: signerAddresses,
  RELAYER_SIGNER_URL: signerUrl,
  RELAYER_SIGNER_URL_BASE: signerUrl,
  RELAYER_SIGNER_URL_BASE_SEPOLIA: signerUrl,
} as const;

type KeysEnv = { [name in keyof typeof relayerKeysShape]?: z.infer<(typeof relayerKeysShape)[name]> };
type NetworksEnv = Parameters<typeof enabledNetworks>[0];

export type LocalKey = { address: Hex; privateKey: Hex };
/** A key held only by the signer at this URL, which the environment variable names. */
export type RemoteKey = { address: Hex; signerUrl: string; signerVariable: string };
export type RelayerKey = LocalKey | RemoteKey;

/** A network's own keys, or else those for all networks. */
function keysOf(env: KeysEnv, id: NetworkId): string[] | undefined {
  const own = id === "base" ? env.RELAYER_PRIVATE_KEYS_BASE : env.RELAYER_PRIVATE_KEYS_BASE_SEPOLIA;
  return own ?? env.RELAYER_PRIVATE_KEYS;
}

const OWN_SIGNER_URLS = {
  base: "RELAYER_SIGNER_URL_BASE",
  "base-sepolia": "RELAYER_SIGNER_URL_BASE_SEPOLIA",
} as const satisfies Record<NetworkId, (typeof SIGNER_URLS)[number]>;

/** The variable with a network's signer: a network may have its own, because a signer signs for one chain id. */
function signerVariableOf(env: KeysEnv, id: NetworkId): (typeof SIGNER_URLS)[number] {
  const own = OWN_SIGNER_URLS[id];
  return env[own] === undefined ? "RELAYER_SIGNER_URL" : own;
}

/** For the enabled networks. `broken`: variables that already failed validation. */
export function relayerKeysFaults(env: KeysEnv & NetworksEnv, broken: ReadonlySet<string>): string[] {
  const faults = signerFaults(env, broken);
  for (const id of enabledNetworks(env)) {
    if (keysOf(env, id) || env.RELAYER_SIGNER_ADDRESSES) continue;
    if ([...broken].some((name) => /^RELAYER_(PRIVATE_KEYS|SIGNER)/.test(name))) continue;
    faults.push(`RELAYER_PRIVATE_KEYS is not set; its keys pay the gas on ${id}`);
  }
  return faults;
}

function signerFaults(env: KeysEnv & NetworksEnv, broken: ReadonlySet<string>): string[] {
  const { RELAYER_SIGNER_ADDRESSES: addresses } = env;
  if ([...broken].some((name) => name.startsWith("RELAYER_SIGNER"))) return [];
  const names = enabledNetworks(env).map((id) => signerVariableOf(env, id));
  const given = names.find((name) => env[name] !== undefined);
  if (addresses && names.some((name) => env[name] === undefined))
    return ["RELAYER_SIGNER_URL is not set; it signs for RELAYER_SIGNER_ADDRESSES"];
  if (!addresses && given) return [`RELAYER_SIGNER_ADDRESSES is not set; ${given} signs for them`];
  return [];
}

/** Production requires https: whoever intercepts the URL's credentials can have transactions signed that spend the relayer's ETH. */
export function openSignerFaults(env: KeysEnv): string[] {
  return SIGNER_URLS.flatMap((name) => {
    const url = env[name];
    if (url === undefined || isEncryptedOrLocal(url)) return [];
    return [`${name}: must be https in production, except on this machine (${new URL(url).host})`];
  });
}

/** Credentials are sent to the signer decoded. */
function hasReadableCredentials(text: string): boolean {
  const url = URL.parse(text);
  try {
    decodeURIComponent(url?.username ?? "");
    decodeURIComponent(url?.password ?? "");
    return true;
  } catch {
    return false;
  }
}

/** Local keys, then remote ones; if an address is both, the local key signs. */
export function relayerKeysOf(env: KeysEnv, id: NetworkId): RelayerKey[] {
  const local = (keysOf(env, id) ?? []).map(toRelayerKey);
  const signerVariable = signerVariableOf(env, id);
  const signerUrl = env[signerVariable];
  const addresses = [
    ...new Set((env.RELAYER_SIGNER_ADDRESSES ?? []).map((text) => text.toLowerCase() as Hex)),
  ];
  const remote = addresses.filter((address) => !local.some((key) => key.address === address));
  return [...local, ...(signerUrl ? remote.map((address) => ({ address, signerUrl, signerVariable })) : [])];
}

function toRelayerKey(text: string): LocalKey {
  // the schema matched 0x and 64 hex digits
  const privateKey = text.toLowerCase() as Hex;
  return { address: relayerAddress(privateKey), privateKey };
}

function isOnCurve(privateKey: string): boolean {
  try {
    return relayerAddress(privateKey as Hex).length > 0;
  } catch {
    // both implementations throw for a number out of range
    return false;
  }
}
