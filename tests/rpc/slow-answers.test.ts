/** Large answers over a slow line: what keeps coming has more time than what hangs. */
import { afterEach, expect, test } from "bun:test";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";

const TIMEOUT_MS = 2_000;
/** For 240 MB by one process that also sends them, on a busy machine. */
const BUSY_TIMEOUT_MS = 20_000;
const PIECE = "f".repeat(250_000);

let chain: Chain | undefined;
let server: ReturnType<typeof Bun.serve> | undefined;
afterEach(async () => {
  chain?.close();
  await server?.stop(true);
});

/** The result of a call to a node that sends a piece of a quarter of a megabyte each `everyMs`, and stops after `sent` of `pieces`. */
async function ask({ pieces, sent = pieces, everyMs }: { pieces: number; sent?: number; everyMs: number }) {
  server = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1", idleTimeout: 60 },
    async fetch(request) {
      const { id, method } = (await request.json()) as { id: number; method: string };
      if (method === "eth_chainId") return Response.json({ jsonrpc: "2.0", id, result: "0x14a34" });
      const body = new ReadableStream({
        async start(controller) {
          controller.enqueue(`{"jsonrpc":"2.0","id":${id},"result":"`);
          for (let count = 0; count < sent; count++) {
            controller.enqueue(PIECE);
            await Bun.sleep(everyMs);
          }
          if (sent < pieces) return;
          controller.enqueue('"}');
          controller.close();
        },
      });
      return new Response(body.pipeThrough(new TextEncoderStream()));
    },
  });
  const urls = [`http://127.0.0.1:${server.port}`];
  chain = openChain({ network: "base-sepolia", urls, timeoutMs: TIMEOUT_MS });
  const [node] = chain.nodes;
  if (!node) throw new Error("there is no node");
  const startedMs = performance.now();
  const call = {
    method: "eth_getTransactionReceipt",
    params: [],
    read: (text: unknown) => String(text).length,
  };
  try {
    const [outcome] = await chain.batchOn(node, [call]);
    return { outcome, tookMs: performance.now() - startedMs };
  } catch (error) {
    return { outcome: error, tookMs: performance.now() - startedMs };
  }
}

test("an answer that keeps coming is read, even if it takes longer than the timeout", async () => {
  // three megabytes a second where the machine is not busy; one is enough
  const { outcome, tookMs } = await ask({ pieces: 60, everyMs: 75 });
  expect(outcome).toEqual({ ok: true, result: 60 * PIECE.length });
  expect(tookMs).toBeGreaterThan(TIMEOUT_MS * 2);
});

test.each([
  ["stops coming", { pieces: 12, sent: 2, everyMs: 1 }],
  ["comes too slowly", { pieces: 40, everyMs: 400 }],
])("error: timeout for an answer that %s", async (_how, answer) => {
  const { outcome, tookMs } = await ask(answer);
  expect(outcome).toMatchObject({ kind: "timeout" });
  expect(tookMs).toBeLessThan(TIMEOUT_MS * 8);
});

test("only one of many large answers is read into memory at a time, and none times out meanwhile", async () => {
  const [answers, pieces] = [4, 200];
  const sent = new Map<number, number>();
  const read = new Set<number>();
  let mostAtOnce = 0;
  server = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1", idleTimeout: 60 },
    async fetch(request) {
      const { id, method, params } = (await request.json()) as {
        id: number;
        method: string;
        params: number[];
      };
      if (method === "eth_chainId") return Response.json({ jsonrpc: "2.0", id, result: "0x14a34" });
      const which = params[0] ?? 0;
      const body = new ReadableStream({
        async pull(controller) {
          const count = sent.get(which) ?? 0;
          if (count === 0) controller.enqueue(`{"jsonrpc":"2.0","id":${id},"result":"`);
          if (count === pieces) {
            controller.enqueue('"}');
            return controller.close();
          }
          controller.enqueue(PIECE);
          sent.set(which, count + 1);
          // a sleep lets the others be pulled; socket buffers hold up to 36 MB of an unread answer
          await Bun.sleep(1);
          const begun = [...sent].filter(([one, all]) => all > 0.9 * pieces && !read.has(one));
          mostAtOnce = Math.max(mostAtOnce, begun.length);
        },
      });
      return new Response(body.pipeThrough(new TextEncoderStream()));
    },
  });
  const urls = [`http://127.0.0.1:${server.port}`];
  chain = openChain({ network: "base-sepolia", urls, timeoutMs: BUSY_TIMEOUT_MS });
  const [node] = chain.nodes;
  if (!node) throw new Error("there is no node");
  const { batchOn } = chain;
  const ask = async (which: number) => {
    const note = (text: unknown) => {
      read.add(which);
      return String(text).length;
    };
    return batchOn(node, [{ method: "eth_getTransactionReceipt", params: [which], read: note }]);
  };
  const outcomes = await Promise.all(Array.from({ length: answers }, (_, which) => ask(which)));
  const whole = { ok: true, result: pieces * PIECE.length } as const;
  expect(outcomes.flat()).toEqual(Array.from({ length: answers }, () => whole));
  expect(mostAtOnce).toBe(1);
}, 120_000);
