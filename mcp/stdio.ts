/** Serves the tools over standard input and output, until the client closes them. */
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { privateKeyToAccount } from "viem/accounts";
import { createClient } from "../sdk/client.ts";
import type { Payer } from "./pay-tool.ts";
import { createMcpServer } from "./server.ts";
import { openSpending } from "./spending.ts";

type Environment = Readonly<Record<string, string | undefined>>;
export type StdioSettings = {
  baseUrl: string;
  apiKey: string | undefined;
  payer: Payer | undefined;
};

const CHAIN_IDS: Readonly<Record<string, number>> = { base: 8453, "base-sepolia": 84532 };
const LIMIT_DEFAULT = "1";
const PRIVATE_KEY = /^0x[0-9a-fA-F]{64}$/;
const USDC = /^\d{1,9}(\.\d{1,6})?$/;
const RETRIES = 2;

/** Throws an Error that names the variable; never with its value, which may be a key. */
export function readStdioSettings(env: Environment): StdioSettings {
  const baseUrl = env.SERVICE_URL?.replace(/\/+$/, "") ?? "http://localhost:3000";
  if (!URL.canParse(baseUrl) || !/^https?:/.test(baseUrl))
    throw new Error("SERVICE_URL must be the service's address, for example https://pay.example.com");
  return { baseUrl, apiKey: env.API_KEY || undefined, payer: readPayer(env) };
}

function readPayer(env: Environment): Payer | undefined {
  const key = env.PAYER_PRIVATE_KEY;
  if (key === undefined || key === "") return undefined;
  if (!PRIVATE_KEY.test(key)) throw new Error("PAYER_PRIVATE_KEY must be 0x and 64 hex digits");
  const network = env.PAY_NETWORK ?? "base-sepolia";
  const chainId = CHAIN_IDS[network];
  if (chainId === undefined) throw new Error("PAY_NETWORK must be base or base-sepolia");
  const perCallUnits = readUsdc(env, "PAY_LIMIT", LIMIT_DEFAULT);
  const perSessionUnits = readUsdc(env, "PAY_SESSION_LIMIT", env.PAY_LIMIT ?? LIMIT_DEFAULT);
  const account = privateKeyToAccount(key as `0x${string}`);
  return { account, chainId, spending: openSpending({ perCallUnits, perSessionUnits }) };
}

function readUsdc(env: Environment, name: string, fallback: string): bigint {
  const text = env[name] ?? fallback;
  if (!USDC.test(text)) throw new Error(`${name} must be an amount in USDC, for example 2.50`);
  const [whole = "", part = ""] = text.split(".");
  return BigInt(whole) * 1_000_000n + BigInt(part.padEnd(6, "0"));
}

export async function serveStdio({ baseUrl, apiKey, payer }: StdioSettings): Promise<void> {
  const stop = new AbortController();
  const service = createClient({ baseUrl, apiKey, retries: RETRIES });
  const server = createMcpServer({ service, baseUrl, payer, signal: stop.signal });
  await server.connect(new StdioServerTransport());
  const closed = new Promise<void>((resolve) => {
    process.stdin.once("end", resolve);
    process.stdin.once("close", resolve);
  });
  await closed;
  stop.abort();
  await server.close();
}
