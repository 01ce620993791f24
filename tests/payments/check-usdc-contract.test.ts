/** What the worker does at its start about the tokens of its chains, whatever their nodes do. */
import { afterEach, expect, test } from "bun:test";
import { domainSeparator, tokenDomainOf } from "../../core/chain/authorization-digest.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { openLog } from "../../core/runtime/log.ts";
import { checkUsdcContracts } from "../../worker/payments/check-usdc-contract.ts";
import { waitFor } from "../support/relay-lab.ts";

const FOREIGN = `0x${"11".repeat(32)}`;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** A node whose token has this separator; without one, it says nothing. */
function startNode(network: NetworkId) {
  const { chainId } = NETWORKS[network];
  const node = { separator: undefined as string | undefined, requests: 0 };
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 60,
    async fetch(request) {
      if (node.separator === undefined) return new Promise<Response>(() => {});
      const message = (await request.json()) as { id: number; method: string };
      if (message.method === "eth_call") node.requests += 1;
      const result = message.method === "eth_chainId" ? `0x${chainId.toString(16)}` : node.separator;
      return Response.json({ jsonrpc: "2.0", id: message.id, result });
    },
  });
  const chain = openChain({ network, urls: [`http://127.0.0.1:${server.port}`], timeoutMs: 5_000 });
  closers.push(
    () => chain.close(),
    () => server.stop(true),
  );
  return { node, chain };
}

function start(...chains: Parameters<typeof checkUsdcContracts>[0]) {
  const stopping = new AbortController();
  const failures: string[] = [];
  const stop = {
    signal: stopping.signal,
    fail: (reason: string, error?: unknown) => failures.push(`${reason}: ${error}`),
  };
  closers.unshift(() => stopping.abort());
  const startedMs = performance.now();
  const checked = checkUsdcContracts(chains, { log: openLog("test", "silent"), stop });
  return { failures, checked, tookMs: () => performance.now() - startedMs };
}

const separatorOf = (network: NetworkId) =>
  `0x${Buffer.from(domainSeparator(tokenDomainOf(NETWORKS[network]))).toString("hex")}`;

test("it starts at once when the tokens are ours", async () => {
  const { node, chain } = startNode("base-sepolia");
  node.separator = separatorOf("base-sepolia");
  const { checked, failures, tookMs } = start(chain);
  await checked;
  expect(tookMs()).toBeLessThan(5_000);
  expect(failures).toEqual([]);
});

test("error: it ends when one of them is another token", async () => {
  const { node, chain } = startNode("base-sepolia");
  node.separator = FOREIGN;
  const { checked, failures } = start(chain);
  await expect(checked).rejects.toThrow("DOMAIN_SEPARATOR");
  expect(failures).toHaveLength(1);
});

test("a node that is still syncing, without the token's code, is asked again", async () => {
  const { node, chain } = startNode("base-sepolia");
  node.separator = "0x";
  const { checked, failures } = start(chain);
  await waitFor("a second request", async () => node.requests > 1);
  node.separator = separatorOf("base-sepolia");
  await checked;
  expect(failures).toEqual([]);
});

test("a node that hangs delays the start by ten seconds, and its token is checked when it answers", async () => {
  const [hanging, working] = [startNode("base"), startNode("base-sepolia")];
  working.node.separator = separatorOf("base-sepolia");
  const { checked, failures, tookMs } = start(hanging.chain, working.chain);
  await checked;
  expect(tookMs()).toBeWithin(9_000, 30_000);
  expect(failures).toEqual([]);
  hanging.node.separator = FOREIGN;
  await waitFor("the end of the process", async () => failures.length === 1);
  expect(failures[0]).toContain("on base has DOMAIN_SEPARATOR");
}, 60_000);
