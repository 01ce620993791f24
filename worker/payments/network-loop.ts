/** The heartbeat of one network's relaying: keeps transactions moving each half second and after each block, and rings the drain. */
import type { Sql } from "../../db/postgres/client.ts";
import { isNodeAway, keepRelays } from "../sender/monitor.ts";
import type { PaymentNetwork } from "./payment-network.ts";

const BEAT_MS = 500;
/** Blocks ring at most this often. */
const RING_MIN_MS = 100;
const BLOCK_CHANNEL = "block";

/** Starts the beat. `drain` is also run after each block, for payments that waited for room. Returns the way to stop. */
export async function startNetworkLoop(
  listener: Sql,
  network: PaymentNetwork,
  drain: () => Promise<void>,
): Promise<() => Promise<void>> {
  const { deps, chain, ledger, held } = network;
  let stopped = false;
  let lastMs = 0;
  let dueMs = 0;
  let wake: (() => void) | undefined;
  const listening = await listener.listen(BLOCK_CHANNEL, (payload) => {
    const [id, number = ""] = payload.split(":");
    if (id !== chain.network.id) return;
    if (/^\d+$/.test(number)) ledger.noteRead(BigInt(number));
    dueMs = Math.min(dueMs, lastMs + RING_MIN_MS);
    wake?.();
  });

  async function attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const level = isNodeAway(error) ? "warn" : "error";
      deps.log[level]({ network: chain.network.id, err: error }, `${what} failed; trying again`);
    }
  }

  async function rest(): Promise<void> {
    while (!stopped && Date.now() < dueMs) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, dueMs - Date.now());
      wake = resolve;
      await promise;
      clearTimeout(timer);
    }
  }

  async function beat(): Promise<void> {
    while (!stopped) {
      lastMs = Date.now();
      dueMs = lastMs + BEAT_MS;
      await attempt("keeping relays", () => keepRelays(network));
      // also when that failed: payments that can't be sent must not wait for ever
      await attempt("relaying", drain);
      await rest();
    }
  }

  const running = beat();
  return async () => {
    stopped = true;
    wake?.();
    ledger.close();
    await Promise.all([running, ...held]);
    await listening.unlisten();
  };
}
