/** Shared by both providers: loading a library, the error codes that the page handles, and reading the chain. */
import { page } from "../checkout/page-data.ts";

export type Call = { method: string; params?: unknown[] };

/** Codes of EIP-1193. */
const DECLINED = 4001;
const DISCONNECTED = 4900;

export const declined = () => codedError(DECLINED);

const failures = new Map<string, number>();

/** Browsers cache a failed module load by URL (the HTML module map), so every retry uses a new URL. */
export async function load<Library>(script: string): Promise<Library> {
  const failed = failures.get(script) ?? 0;
  try {
    return (await import(failed ? `${script}?attempt=${failed + 1}` : script)) as Library;
  } catch {
    failures.set(script, failed + 1);
    throw codedError(DISCONNECTED);
  }
}

/** Balances are read from the network's public node, because wallets outside this browser do not provide one. */
export async function readChain({ method, params = [] }: Call): Promise<unknown> {
  const response = await fetch(page.network.rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const { result } = (await response.json()) as { result?: unknown };
  if (result === undefined) throw codedError(DISCONNECTED);
  return result;
}

function codedError(code: number): Error {
  return Object.assign(new Error(`code ${code}`), { code });
}
