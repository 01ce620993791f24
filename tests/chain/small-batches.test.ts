/** Simulations through a provider that takes few calls in a batch. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { RelayItem } from "../../core/chain/relay.ts";
import { simulateAtHead } from "../../core/chain/simulate-at-head.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { randomAddress } from "../support/seed.ts";

/** The limit is found by halving, then by going up again. */
const SIMULATIONS_UNTIL_LEARNT = 3;
const payee = randomAddress();
const item: RelayItem = {
  isContract: false,
  authorization: {
    ...{ from: randomAddress(), to: payee, value: 1n, validAfter: 0n, validBefore: 9_999_999_999n },
    nonce: `0x${"11".repeat(32)}`,
  },
  signature: `0x${"22".repeat(65)}`,
  tag: `0x${"00".repeat(16)}`,
};

let node: TestChain;
beforeAll(async () => {
  node = await startTestChain();
}, 120_000);
afterAll(() => node?.stop());

/** What unread blocks brought the payee, through a node that takes `callsMax` calls in a batch. */
async function readUnread(callsMax: number): Promise<unknown> {
  const proxy = startFaultProxy(node.rpcUrl);
  proxy.fault = (calls) =>
    calls.length > callsMax
      ? { kind: "error", code: 31, message: `Batch of more than ${callsMax} requests are not allowed` }
      : undefined;
  const chain = openChain({ network: "base-sepolia", urls: [proxy.url], timeoutMs: 5_000 });
  const payees: Hex[] = [payee];
  try {
    for (let count = 1; count < SIMULATIONS_UNTIL_LEARNT; count++)
      await simulateAtHead(chain, payee, [item], { authorizations: [], unread: { afterNumber: 0n, payees } });
    const { unread } = await simulateAtHead(chain, payee, [item], {
      ...{ authorizations: [], unread: { afterNumber: 0n, payees } },
    });
    return unread?.transfers;
  } finally {
    chain.close();
    await proxy.stop();
  }
}

test("a node that accepts only four calls in a batch still tells what unread blocks transferred to the payees", async () => {
  expect(await readUnread(4)).toEqual([]);
});

test("logs that came in another request than the head or its parent block are ignored", async () => {
  expect(await readUnread(3)).toBeUndefined();
});
