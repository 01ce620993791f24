/**
 * The reference TypeScript facilitator (@x402/core with the exact scheme of @x402/evm) on a chain of its own, set up as its example does:
 * one relayer key, verify and settle in this process, no HTTP and no database. With and without viem's nonce manager.
 */
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { createWalletClient, http, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";
import { createNonceManager, jsonRpc } from "viem/nonce";
import { NETWORKS } from "../core/domain/networks.ts";
import { localRelayerKeys } from "../local/chain/accounts.ts";
import { callRpc } from "../local/chain/rpc.ts";
import { fundUsdc } from "../local/chain/usdc.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { makePayer, signPayment } from "../tests/support/payer.ts";
import { randomAddress } from "../tests/support/seed.ts";
import { percentile, type Row } from "./report.ts";

const AMOUNT = 10_000n;
/** A settlement that takes longer counts as failed: its nonce is missing and nothing fills the gap. */
const GIVE_UP_MS = 20_000;
const WARM_UP = 10;
const { usdc, caip2 } = NETWORKS["base-sepolia"];

export type ReferenceLoad = {
  blockTimeS: number;
  concurrency: number;
  payments: number;
  hasNonceManager: boolean;
};

export async function measureReference(load: ReferenceLoad): Promise<Row> {
  const chain = await startTestChain({ blockTimeS: load.blockTimeS });
  try {
    const facilitator = openFacilitator(chain.rpcUrl, load.hasNonceManager);
    const sales = await makeSales(chain.rpcUrl, WARM_UP + load.payments);
    for (const sale of sales.splice(0, load.blockTimeS === 0 ? WARM_UP : 1)) await settle(facilitator, sale);
    const startedMs = performance.now();
    const answers = await settleAll(facilitator, sales.slice(0, load.payments), load.concurrency);
    const seconds = (performance.now() - startedMs) / 1000;
    const settled = answers.filter((answer) => answer.transaction !== undefined);
    const times = settled.map((answer) => answer.ms).toSorted((a, b) => a - b);
    return {
      bench: "pay",
      who: load.hasNonceManager ? "reference + nonce manager" : "reference",
      "block s": load.blockTimeS,
      concurrency: load.concurrency,
      payments: load.payments,
      "payments/s": Math.round((settled.length / seconds) * 10) / 10,
      "p50 ms": percentile(times, 0.5),
      "p95 ms": percentile(times, 0.95),
      "p99 ms": percentile(times, 0.99),
      failures: answers.length - settled.length,
      "gas/payment": await medianGas(
        chain.rpcUrl,
        settled.flatMap(({ transaction }) => transaction ?? []),
      ),
      "payments/tx": settled.length > 0 ? 1 : 0,
    };
  } finally {
    await chain.stop();
  }
}

function openFacilitator(rpcUrl: string, hasNonceManager: boolean): x402Facilitator {
  const [key] = localRelayerKeys();
  if (!key) throw new Error("there is no relayer key");
  // viem's shared nonce manager would remember the nonces of the previous chain
  const nonceManager = createNonceManager({ source: jsonRpc() });
  const account = privateKeyToAccount(key, hasNonceManager ? { nonceManager } : {});
  const transport = http(rpcUrl, { retryCount: 0 });
  const client = createWalletClient({ account, chain: baseSepolia, transport }).extend(publicActions);
  const signer = toFacilitatorEvmSigner({
    address: account.address,
    getCode: (args) => client.getCode(args),
    readContract: (args) => client.readContract({ ...args, args: args.args ?? [] } as never),
    verifyTypedData: (args) => client.verifyTypedData(args as never),
    writeContract: (args) => client.writeContract({ ...args, args: args.args ?? [] } as never),
    sendTransaction: (args) => client.sendTransaction(args),
    waitForTransactionReceipt: (args) => client.waitForTransactionReceipt(args),
  });
  return new x402Facilitator().register(caip2 as `${string}:${string}`, new ExactEvmScheme(signer));
}

type Sale = Parameters<x402Facilitator["settle"]>;
type Answer = { ms: number; transaction: string | undefined };

async function settleAll(
  facilitator: x402Facilitator,
  sales: readonly Sale[],
  concurrency: number,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  let next = 0;
  const payer = async () => {
    for (let sale = sales[next++]; sale; sale = sales[next++]) answers.push(await settle(facilitator, sale));
  };
  await Promise.all(Array.from({ length: concurrency }, payer));
  return answers;
}

async function settle(facilitator: x402Facilitator, sale: Sale): Promise<Answer> {
  const startedMs = performance.now();
  const answer = await Promise.race([
    facilitator.settle(...sale).catch(() => undefined),
    Bun.sleep(GIVE_UP_MS).then(() => undefined),
  ]);
  return {
    ms: performance.now() - startedMs,
    transaction: answer?.success ? answer.transaction : undefined,
  };
}

/** Each with a funded payer of its own, to one payee that already holds USDC. */
async function makeSales(rpcUrl: string, count: number): Promise<Sale[]> {
  const payTo = randomAddress();
  const payers = Array.from({ length: count }, makePayer);
  await fundUsdc(rpcUrl, payTo, 1n);
  const addresses = payers.map((payer) => payer.address);
  await fundUsdc(rpcUrl, addresses, AMOUNT);
  const validBefore = Math.floor(Date.now() / 1000) + 3_600;
  return Promise.all(
    payers.map(async (payer): Promise<Sale> => {
      const { signature, ...fields } = await signPayment(payer, {
        to: payTo,
        amountUnits: AMOUNT,
        validBefore,
      });
      const requirements = {
        ...{ scheme: "exact", network: caip2 as `${string}:${string}`, asset: usdc.address, payTo },
        ...{ amount: AMOUNT.toString(), maxTimeoutSeconds: 300 },
        extra: { name: usdc.name, version: usdc.version },
      };
      const times = { validAfter: String(fields.validAfter), validBefore: String(fields.validBefore) };
      const payload = { signature, authorization: { ...fields, ...times } };
      return [{ x402Version: 2, accepted: requirements, payload }, requirements];
    }),
  );
}

const RECEIPTS_READ = 200;

async function medianGas(rpcUrl: string, transactions: readonly string[]): Promise<number> {
  const gas: number[] = [];
  for (const hash of transactions.slice(0, RECEIPTS_READ)) {
    const receipt = (await callRpc(rpcUrl, "eth_getTransactionReceipt", [hash])) as {
      gasUsed: string;
    } | null;
    if (receipt) gas.push(Number(receipt.gasUsed));
  }
  return percentile(
    gas.toSorted((a, b) => a - b),
    0.5,
  );
}
