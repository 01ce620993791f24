/** The heartbeat of one network's relaying: keeps transactions moving each half second and after each block, and rings the drain. */
import type { Sql } from "../../db/client.ts";
import { isNodeAway, keepRelays } from "./keeper.ts";
import type { RelayNetwork } from "./network.ts";

const BEAT_MS = 500;
/** Blocks ring at most this often. */
const RING_MIN_MS = 100;
const BLOCK_CHANNEL = "block";

/** Starts the beat. `drain` is also run after each block, for payments that waited for room. Returns the way to stop. */
export async function startNetworkLoop(
  listener: Sql,
  network: RelayNetwork,
  drain: () => Promise<void>,
): Promise<() => Promise<void>> {
  const { deps, chain } = network;
  let stopped = false;
  let lastMs = 0;
  let wake: (() => void) | undefined;
  const ring = () => wake?.();
  const listening = await listener.listen(BLOCK_CHANNEL, (payload) => {
    if (payload.startsWith(`${chain.network.id}:`) && Date.now() - lastMs >= RING_MIN_MS) ring();
  });

  async function beat(): Promise<void> {
    while (!stopped) {
      lastMs = Date.now();
      try {
        await keepRelays(network);
        await drain();
      } catch (error) {
        const level = isNodeAway(error) ? "warn" : "error";
        deps.log[level]({ network: chain.network.id, err: error }, "keeping relays failed; trying again");
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, BEAT_MS);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  const running = beat();
  return async () => {
    stopped = true;
    ring();
    await running;
    await listening.unlisten();
  };
}
