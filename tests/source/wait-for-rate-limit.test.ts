/** When the only node asks for a rest: it is waited out if it is short, and another node is asked where there is one. */
import { afterEach, expect, test } from "bun:test";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { waitForRateLimit } from "../../indexer/source/wait-for-rate-limit.ts";

let chain: Chain | undefined;
afterEach(() => chain?.close());

/** `restsMs`: for how long each of them is to be left alone. */
function waits(error: unknown, nodes = 1, restsMs: readonly number[] = []): Promise<boolean> {
  chain?.close();
  // nothing is asked of them
  const urls = Array.from({ length: nodes }, (_, index) => `http://127.0.0.1:1/${index}`);
  chain = openChain({ network: "base-sepolia", urls, timeoutMs: 1_000 });
  for (const [index, restMs] of restsMs.entries()) {
    const node = chain.nodes[index];
    if (node) node.health.restUntilMs = performance.now() + restMs;
  }
  return waitForRateLimit(chain, error);
}
const asksForRest = (retryAfterMs: number | undefined, kind: "rate-limit" | "timeout" = "rate-limit") =>
  new RpcTransportError(kind, "not now", { retryAfterMs });

test("a short pause requested by the only node is waited out", async () => {
  expect(await waits(asksForRest(0))).toBe(true);
  expect(await waits(asksForRest(5))).toBe(true);
});

test("a pause of two seconds is waited out, a longer one is not", async () => {
  expect(await waits(asksForRest(2_000))).toBe(true);
  expect(await waits(asksForRest(2_001))).toBe(false);
});

test.each([
  ["of unknown length", asksForRest(undefined)],
  ["after another failure", asksForRest(5, "timeout")],
  ["that no node requested", new Error("not now")],
  ["that nothing mentions", undefined],
])("a pause %s is not waited out", async (_which, error) => {
  expect(await waits(error)).toBe(false);
});

test("a pause is not waited out if there is another node", async () => {
  expect(await waits(asksForRest(5), 2)).toBe(false);
});

test("if all nodes request a pause, the shortest one of at most two seconds is waited out", async () => {
  const startedMs = performance.now();
  expect(await waits(asksForRest(5), 2, [5_000, 200])).toBe(true);
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(150);
  expect(await waits(asksForRest(5), 2, [5_000, 4_000])).toBe(false);
  expect(await waits(asksForRest(5), 2, [5_000, 0])).toBe(false);
});
