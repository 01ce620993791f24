/** The enabled networks and their RPC URLs: variables shared by every process that reads a chain. */
import { z } from "zod";
import { commaList, EMPTY_LIST, wholeNumber } from "./env.ts";
import type { Log } from "./log.ts";
import { isEncryptedOrLocal } from "./public-url.ts";

const NETWORK_SUFFIX = { base: "BASE", "base-sepolia": "BASE_SEPOLIA" } as const;
type NetworkName = keyof typeof NETWORK_SUFFIX;
const NAMES = Object.keys(NETWORK_SUFFIX) as NetworkName[];

const rpcUrls = commaList
  .pipe(z.array(z.url({ protocol: /^https?$/, error: "must be http(s) URLs" })).min(1, EMPTY_LIST))
  .optional();
const confirmations = wholeNumber(1, 1_000).default(3);

export const chainShape = {
  NETWORKS: commaList.pipe(z.array(z.enum(["base", "base-sepolia"])).min(1, EMPTY_LIST)).optional(),
  RPC_URL_BASE: rpcUrls,
  RPC_URL_BASE_SEPOLIA: rpcUrls,
  CONFIRMATIONS_BASE: confirmations,
  CONFIRMATIONS_BASE_SEPOLIA: confirmations,
} as const;

export type ChainSettings = { id: NetworkName; rpcUrls: string[]; confirmations: number };

type ChainEnv = {
  NODE_ENV: string;
  NETWORKS?: NetworkName[] | undefined;
  RPC_URL_BASE?: string[] | undefined;
  RPC_URL_BASE_SEPOLIA?: string[] | undefined;
  CONFIRMATIONS_BASE: number;
  CONFIRMATIONS_BASE_SEPOLIA: number;
};

/** `NETWORKS`, else both in production and base-sepolia otherwise. */
export function enabledNetworks(env: Partial<ChainEnv>): NetworkName[] {
  return [...new Set(env.NETWORKS ?? (env.NODE_ENV === "production" ? NAMES : ["base-sepolia" as const]))];
}

const rpcVariableOf = (id: NetworkName) => `RPC_URL_${NETWORK_SUFFIX[id]}` as const;

/** Logs that a node serves another chain, and which variable names the node. */
export function wrongChainLog(log: Pick<Log, "error">, id: NetworkName): (message: string) => void {
  return (message) => log.error({ network: id }, `${rpcVariableOf(id)}: ${message}; the node is not used`);
}

/** Reports an enabled network without an RPC URL, and in production one reached over the internet without encryption. */
export function chainFaults(env: Partial<ChainEnv>, broken: ReadonlySet<string>): string[] {
  return enabledNetworks(env).flatMap((id) => {
    const name = rpcVariableOf(id);
    const urls = env[name];
    if (!urls && !broken.has(name))
      return [`${name} is not set; network ${id} is enabled and needs an RPC URL`];
    const open = (urls ?? []).filter((url) => !isEncryptedOrLocal(url));
    if (env.NODE_ENV !== "production" || open.length === 0) return [];
    const hosts = open.map((url) => new URL(url).host).join(", ");
    return [
      `${name}: must be https in production, except on this machine (${hosts}): an attacker on the network path could forge the chain's answers`,
    ];
  });
}

export function enabledChains(env: ChainEnv): ChainSettings[] {
  return enabledNetworks(env).map((id) => ({
    id,
    rpcUrls: env[rpcVariableOf(id)] ?? [],
    confirmations: env[`CONFIRMATIONS_${NETWORK_SUFFIX[id]}`],
  }));
}
