/** Latency from a block to its visibility in an indexer: payments at moments spread evenly over the time between two polls. */
import { encodeTransfer } from "../core/chain/usdc.ts";
import type { Hex } from "../core/domain/networks.ts";
import { callRpc } from "../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../local/chain/usdc.ts";
import type { TestChain } from "../tests/support/chain.ts";
import { USDC } from "./indexer-process.ts";
import { percentile, type Row } from "./report.ts";

const WARM_UP = 20;
const PAUSE_MS = 30;
const ANNOUNCED_WITHIN_MS = 5_000;
const TIMEOUT_MS = 30_000;
/** Base's block time. An indexer that missed a block's announcement gets the next one. */
const EMPTY_BLOCK_EVERY_MS = 2_000;
/** Its multiples are spread evenly over 0 to 1, however many there are. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;

export type Arrivals = {
  payments: number;
  /** Concurrent payers; each waits for its last payment before the next. */
  payers: number;
  /** A payer pauses up to this long. */
  spreadMs: number;
  /** Interval of checks for visibility: short enough to be precise, long enough not to add load. */
  lookMs: number;
};

export type Target = { to: Hex; isSeen: () => Promise<boolean> };

/** One payer, many payments: the indexer is notified of each block. */
export function nudged(payments: number): Arrivals {
  return { payments, payers: 1, spreadMs: PAUSE_MS, lookMs: 1 };
}

/** Most of the time is waiting, so four payers run concurrently. */
export function polled(payments: number, pollMs: number): Arrivals {
  return { payments, payers: 4, spreadMs: pollMs, lookMs: 5 };
}

/** Sorted milliseconds from a block's announcement by the node to `isSeen`. `prepare` sets up the payment of these units. */
export async function measureArrivals(
  chain: TestChain,
  { payments, payers, spreadMs, lookMs }: Arrivals,
  prepare: (amountUnits: bigint) => Promise<Target>,
): Promise<number[]> {
  await callRpc(chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  const heads = await listenForBlocks(chain.wsUrl);
  const mining = setInterval(
    () => callRpc(chain.rpcUrl, "evm_mine").catch(() => undefined),
    EMPTY_BLOCK_EVERY_MS,
  );
  const times: number[] = [];
  let next = 0;
  const pay = async (payer: Hex) => {
    await fundEth(chain.rpcUrl, payer, 10n ** 24n);
    await fundUsdc(chain.rpcUrl, payer, 10n ** 15n);
    while (next < payments + WARM_UP) {
      const n = next++;
      const amountUnits = 1_000_000n + BigInt(n);
      const target = await prepare(amountUnits);
      const transaction = {
        from: payer,
        to: USDC,
        data: encodeTransfer(target.to, amountUnits),
        gas: "0x30000",
      };
      const txHash = await callRpc(chain.rpcUrl, "eth_sendTransaction", [transaction]);
      const seenMs = await waitUntilSeen(target, lookMs, amountUnits);
      const receipt = await callRpc(chain.rpcUrl, "eth_getTransactionReceipt", [txHash]);
      const blockMs = await heads.announcedMs(Number((receipt as { blockNumber: Hex }).blockNumber));
      if (n >= WARM_UP) times.push(seenMs - blockMs);
      await Bun.sleep(PAUSE_MS + ((n * GOLDEN_RATIO) % 1) * spreadMs);
    }
  };
  try {
    await Promise.all(Array.from({ length: payers }, (_, n) => pay(`0x${"d0".repeat(19)}d${n}`)));
    return times.sort((a, b) => a - b);
  } finally {
    clearInterval(mining);
    heads.close();
  }
}

export function toLatencyRow(who: string, blocks: string, times: readonly number[]): Row {
  return {
    ...{ bench: "index latency", who, "blocks arrive by": blocks, payments: times.length },
    "p50 ms": percentile(times, 0.5),
    "p99 ms": percentile(times, 0.99),
    "max ms": percentile(times, 1),
  };
}

async function waitUntilSeen({ isSeen }: Target, lookMs: number, amountUnits: bigint): Promise<number> {
  const deadline = Date.now() + TIMEOUT_MS;
  while (Date.now() < deadline) {
    if (await isSeen()) return performance.now();
    await Bun.sleep(lookMs);
  }
  throw new Error(`the payment of ${amountUnits} units was not seen within ${TIMEOUT_MS} ms`);
}

/** When the node announced each block, by our own subscription. */
async function listenForBlocks(wsUrl: string) {
  const times = new Map<number, number>();
  const socket = new WebSocket(wsUrl);
  const subscribed = Promise.withResolvers<void>();
  socket.onopen = () =>
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_subscribe", params: ["newHeads"] }));
  socket.onerror = () => subscribed.reject(new Error(`no WebSocket at ${wsUrl}`));
  socket.onmessage = (event) => {
    const nowMs = performance.now();
    const message = JSON.parse(String(event.data)) as { id?: number; params?: { result: { number: Hex } } };
    if (message.id === 1) subscribed.resolve();
    if (message.params) times.set(Number(message.params.result.number), nowMs);
  };
  await subscribed.promise;
  return {
    /** The observer may have seen the payment before our own subscription got the block. */
    async announcedMs(number: number): Promise<number> {
      const deadline = Date.now() + ANNOUNCED_WITHIN_MS;
      for (;;) {
        const timeMs = times.get(number);
        if (timeMs !== undefined) return timeMs;
        if (Date.now() > deadline) throw new Error(`block ${number} was not announced`);
        await Bun.sleep(1);
      }
    },
    close: () => socket.close(),
  };
}
