/** `bun tests/guides/buy.ts 2 URL`: buys with a standard client of x402 version 1 or 2, and ends with 1 unless the goods are delivered. */
import { privateKeyToAccount } from "viem/accounts";

const [version, url = ""] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.PAYER_KEY as `0x${string}`);
const pay = version === "2" ? await openVersion2() : await openVersion1();
const response = await pay(url);
const text = await response.text();
console.log("bought:", response.status, text);
process.exitCode = response.status === 200 && text.includes("sunny") ? 0 : 1;

async function openVersion2() {
  const { x402Client } = await import("@x402/core/client");
  const { registerExactEvmScheme } = await import("@x402/evm/exact/client");
  const { wrapFetchWithPayment } = await import("@x402/fetch");
  const client = new x402Client();
  registerExactEvmScheme(client, { signer: account });
  return wrapFetchWithPayment(fetch, client);
}

async function openVersion1() {
  const { wrapFetchWithPayment } = await import("x402-fetch");
  return wrapFetchWithPayment(fetch, account as never);
}
