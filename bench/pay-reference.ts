/** The reference facilitator on a chain of its own: one server process in Bun or in Node, driven over HTTP like the service. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NETWORKS } from "../core/domain/networks.ts";
import { localRelayerKeys } from "../local/chain/accounts.ts";
import { callRpc } from "../local/chain/rpc.ts";
import { fundUsdc } from "../local/chain/usdc.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { makePayer, signPayment } from "../tests/support/payer.ts";
import { randomAddress } from "../tests/support/seed.ts";
import { cpuMilliseconds } from "./cpu-time.ts";
import {
  AMOUNT,
  type PayCase,
  payAll,
  type Request,
  rowOf,
  VALID_FOR_S,
  WARM_UP_CONCURRENCY,
} from "./pay-load.ts";
import { percentile, type Row, round } from "./report.ts";

/** Enough for its code to be compiled. */
const WARM_UP_PAYMENTS = 1_000;

const RECEIPTS_READ = 200;
const { usdc, caip2 } = NETWORKS["base-sepolia"];

export type Runtime = "Bun" | "Node";

export async function measureReference(runtime: Runtime, load: PayCase): Promise<Row> {
  const folder = mkdtempSync(join(tmpdir(), "bench-reference-"));
  const chain = await startTestChain({ blockTimeS: load.blockTimeS, skipsStateRoots: true });
  const server = Bun.spawn([...(await commandOf(runtime, folder))], {
    env: {
      ...process.env,
      RPC_URL: chain.rpcUrl,
      RELAYER_KEYS: localRelayerKeys().join(","),
      RECEIPT_POLL_MS: "50",
    },
    stdout: "pipe",
    stderr: "inherit",
  });
  try {
    const first = await server.stdout.getReader().read();
    const url = `http://127.0.0.1:${new TextDecoder().decode(first.value).trim()}/settle`;
    const requests = await makeRequests(chain.rpcUrl, url, WARM_UP_PAYMENTS + load.payments);
    await payAll(requests.splice(0, WARM_UP_PAYMENTS), { concurrency: WARM_UP_CONCURRENCY, readHash });
    const before = cpuMilliseconds([server.pid]);
    const run = await payAll(requests, { concurrency: load.concurrency, readHash });
    const cpuMs = (cpuMilliseconds([server.pid]) - before) / load.payments;
    const gas = await medianGas(chain.rpcUrl, run.hashes);
    return rowOf(load, {
      who: `reference, ${runtime}`,
      cpuMs: round(cpuMs),
      postgresMs: 0,
      run,
      gas,
      perTransaction: 1,
      warmUp: WARM_UP_PAYMENTS,
    });
  } finally {
    server.kill();
    await server.exited;
    await chain.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function commandOf(runtime: Runtime, folder: string): Promise<readonly string[]> {
  const source = join(import.meta.dir, "reference-server.ts");
  if (runtime === "Bun") return [process.execPath, "--no-env-file", source];
  const outfile = "reference-server.mjs";
  await Bun.build({ entrypoints: [source], target: "node", outdir: folder, naming: outfile });
  return ["node", join(folder, outfile)];
}

function readHash(answer: { success?: boolean; transaction?: string }): string | undefined {
  return answer.success ? answer.transaction : undefined;
}

/** Each with a funded payer of its own, to one payee that already holds USDC. */
async function makeRequests(rpcUrl: string, url: string, count: number): Promise<Request[]> {
  const payTo = randomAddress();
  const payers = Array.from({ length: count }, makePayer);
  await fundUsdc(rpcUrl, payTo, 1n);
  const addresses = payers.map((payer) => payer.address);
  await fundUsdc(rpcUrl, addresses, AMOUNT);
  const validBefore = Math.floor(Date.now() / 1000) + VALID_FOR_S;
  const requirements = {
    ...{ scheme: "exact", network: caip2, asset: usdc.address, payTo },
    ...{ amount: AMOUNT.toString(), maxTimeoutSeconds: 300 },
    extra: { name: usdc.name, version: usdc.version },
  };
  return Promise.all(
    payers.map(async (payer) => {
      const signed = await signPayment(payer, { to: payTo, amountUnits: AMOUNT, validBefore });
      const { signature, ...fields } = signed;
      const times = { validAfter: String(fields.validAfter), validBefore: String(fields.validBefore) };
      const payload = { signature, authorization: { ...fields, ...times } };
      return {
        url,
        body: JSON.stringify([{ x402Version: 2, accepted: requirements, payload }, requirements]),
      };
    }),
  );
}

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
