/** The developer's settings for the local environment, read once. Anything not set is provided. */
import { resolve } from "node:path";
import { isNetworkId, NETWORK_IDS, type NetworkId } from "../core/domain/networks.ts";

export type LocalSettings = {
  dataDir: string;
  host: string;
  port: number;
  baseUrl: string;
  /** Port of the first local chain; a second network's chain uses the next one. */
  chainPort: number;
  blockTimeS: number;
  /** The API's; worker and indexer take the two ports above it. 0: any free port for each. */
  metricsPort: number | undefined;
  networks: NetworkId[];
  databaseUrl: string | undefined;
  rpcUrls: Partial<Record<NetworkId, string>>;
  smtpUrl: string | undefined;
  /** A node of a public network whose audited wallet contracts are placed on local chains instead of the stand-in. */
  walletCodeUrl: string | undefined;
};

export const RPC_VARIABLE = { base: "RPC_URL_BASE", "base-sepolia": "RPC_URL_BASE_SEPOLIA" } as const;
const RELAYER_VARIABLE = {
  base: "RELAYER_PRIVATE_KEYS_BASE",
  "base-sepolia": "RELAYER_PRIVATE_KEYS_BASE_SEPOLIA",
} as const;

/** Throws a readable message for invalid settings. */
export function readLocalSettings(env: Record<string, string | undefined>): LocalSettings {
  const read = (name: string) => env[name]?.trim() || undefined;
  const port = readNumber("PORT", read("PORT") ?? "3000", 65_535);
  const metricsPort = read("METRICS_PORT");
  const networks = (read("NETWORKS") ?? "base-sepolia").split(",").map((name) => readNetwork(name.trim()));
  const rpcUrls: Partial<Record<NetworkId, string>> = {};
  for (const id of NETWORK_IDS) {
    const url = read(RPC_VARIABLE[id]);
    if (url === undefined || !networks.includes(id)) continue;
    if (!["RELAYER_PRIVATE_KEYS", RELAYER_VARIABLE[id], "RELAYER_SIGNER_ADDRESSES"].some(read)) {
      throw new Error(
        `${RPC_VARIABLE[id]} is set, so ${RELAYER_VARIABLE[id]} is needed: the local chain's keys hold nothing elsewhere.`,
      );
    }
    rpcUrls[id] = url;
  }
  return {
    dataDir: resolve(read("DATA_DIR") ?? ".data"),
    host: read("HOST") ?? "127.0.0.1",
    port,
    baseUrl: (read("BASE_URL") ?? `http://localhost:${port}`).replace(/\/+$/, ""),
    chainPort: readNumber("CHAIN_PORT", read("CHAIN_PORT") ?? "8545", 65_534),
    blockTimeS: readNumber("BLOCK_TIME_S", read("BLOCK_TIME_S") ?? "1", 3_600),
    metricsPort: metricsPort === undefined ? undefined : readNumber("METRICS_PORT", metricsPort, 65_533),
    networks,
    databaseUrl: read("DATABASE_URL"),
    rpcUrls,
    smtpUrl: read("SMTP_URL"),
    walletCodeUrl: read("WALLET_CODE_RPC_URL"),
  };
}

function readNumber(name: string, text: string, max: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value <= max) return value;
  throw new Error(`${name} is "${text}", expected a whole number up to ${max}.`);
}

function readNetwork(name: string): NetworkId {
  if (isNetworkId(name)) return name;
  throw new Error(`NETWORKS names "${name}", expected ${NETWORK_IDS.join(" or ")}.`);
}
