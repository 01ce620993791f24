/** The load of `bench pay`, the same for the service and for the reference. */
import { loadavg } from "node:os";
import { percentile, type Row } from "./report.ts";

export const AMOUNT = 10_000n;
export const WARM_UP_CONCURRENCY = 64;
export const VALID_FOR_S = 3_600;
/** A payment that takes longer counts as failed. */
const GIVE_UP_MS = 60_000;

export type PayCase = { blockTimeS: number; concurrency: number; payments: number };
export type Request = { url: string; body: string };
export type Run = {
  seconds: number;
  timesMs: readonly number[];
  failures: number;
  hashes: readonly string[];
};

/**
 * Closed loop: each of `concurrency` payers sends the next request after the response to its last one. `readHash` gives the hash of the
 * transaction that settled a payment, or undefined.
 */
export async function payAll(
  requests: readonly Request[],
  given: { concurrency: number; readHash: (answer: never) => string | undefined },
): Promise<Run> {
  const timesMs: number[] = [];
  const hashes: string[] = [];
  let next = 0;
  const payer = async () => {
    for (let request = requests[next++]; request; request = requests[next++]) {
      const startedMs = performance.now();
      const hash = given.readHash((await ask(request)) as never);
      if (hash === undefined) continue;
      timesMs.push(performance.now() - startedMs);
      hashes.push(hash);
    }
  };
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: given.concurrency }, payer));
  const seconds = (performance.now() - startedMs) / 1000;
  return {
    seconds,
    timesMs: timesMs.toSorted((a, b) => a - b),
    failures: requests.length - hashes.length,
    hashes,
  };
}

async function ask({ url, body }: Request): Promise<unknown> {
  try {
    const headers = { "content-type": "application/json" };
    const signal = AbortSignal.timeout(GIVE_UP_MS);
    return await (await fetch(url, { method: "POST", headers, body, signal })).json();
  } catch {
    return {};
  }
}

/** `cpuMs` and `postgresMs` are per payment, without the chain and the load generator. */
export function rowOf(
  load: PayCase,
  given: {
    who: string;
    cpuMs: number;
    postgresMs: number;
    run: Run;
    gas: number;
    perTransaction: number;
    warmUp: number;
  },
): Row {
  const { run } = given;
  return {
    bench: "pay",
    who: given.who,
    "block s": load.blockTimeS,
    concurrency: load.concurrency,
    "CPU ms/payment": given.cpuMs,
    "Postgres ms": given.postgresMs,
    "payments/s": Math.round((run.hashes.length / run.seconds) * 10) / 10,
    "p50 ms": percentile(run.timesMs, 0.5),
    "p99 ms": percentile(run.timesMs, 0.99),
    payments: load.payments,
    "warm-up": given.warmUp,
    failures: run.failures,
    "gas/payment": given.gas,
    "payments/tx": given.perTransaction,
    load: Math.round(loadavg()[0] ?? 0),
  };
}
