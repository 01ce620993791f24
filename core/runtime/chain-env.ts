/** Which networks are enabled and how each is reached: the variables every process that reads a chain shares. */
import { z } from "zod";
import { commaList, EnvError, wholeNumber } from "./env.ts";

const NETWORK_SUFFIX = { base: "BASE", "base-sepolia": "BASE_SEPOLIA" } as const;
type NetworkName = keyof typeof NETWORK_SUFFIX;

const rpcUrls = commaList
  .pipe(z.array(z.url({ protocol: /^https?$/, error: "must be http(s) URLs" })).min(1))
  .optional();
const confirmations = wholeNumber(1, 1_000).default(3);

export const chainShape = {
  NETWORKS: commaList.pipe(z.array(z.enum(["base", "base-sepolia"])).min(1)).optional(),
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

/** Enabled networks: `NETWORKS`, else both in production and base-sepolia otherwise. Throws EnvError for one without an RPC URL. */
export function enabledChains(env: ChainEnv): ChainSettings[] {
  const names =
    env.NETWORKS ??
    (env.NODE_ENV === "production" ? (["base", "base-sepolia"] as const) : (["base-sepolia"] as const));
  const faults: string[] = [];
  const settings = [...new Set(names)].map((id) => {
    const rpc = id === "base" ? env.RPC_URL_BASE : env.RPC_URL_BASE_SEPOLIA;
    if (!rpc) faults.push(`RPC_URL_${NETWORK_SUFFIX[id]}: is required because network ${id} is enabled`);
    return {
      id,
      rpcUrls: rpc ?? [],
      confirmations: id === "base" ? env.CONFIRMATIONS_BASE : env.CONFIRMATIONS_BASE_SEPOLIA,
    };
  });
  if (faults.length > 0) throw new EnvError(faults);
  return settings;
}
