/** What the sender knows of a network: read from a node that has the head, at most once a second, and never replaced by an older answer. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { type LaneLimits, openLanes } from "../../worker/sender/relayer-lanes.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import { NETWORK } from "../support/ledger-lab.ts";
import { MAX_FEE_WEI, newKey, openSenderLab, type SenderLab, send } from "../support/sender-lab.ts";

const LIMITS: LaneLimits = { maxFeeWei: MAX_FEE_WEI, dailyFeeMaxWei: undefined };
let lab: SenderLab;
/** Another node of the same chain. */
let spare: FaultProxy;
let chain: Chain;

beforeAll(async () => {
  lab = await openSenderLab();
  spare = startFaultProxy(lab.proxy.url);
});
beforeEach(() => {
  spare.fault = () => undefined;
  spare.delay = () => undefined;
  chain?.close();
  chain = openChain({ network: NETWORK, urls: [spare.url, lab.proxy.url], timeoutMs: 5_000 });
});
afterAll(async () => {
  chain?.close();
  await spare?.stop();
  await lab?.stop();
});

type Answer = { id: number; result?: unknown; error?: object };

/** The first answer of the node's market, which is its head, changed. */
function editHead(change: (head: object) => unknown, node: FaultProxy = spare): void {
  const isHead = ({ result }: Answer) =>
    typeof result === "object" && result !== null && "baseFeePerGas" in result;
  node.fault = () => ({
    kind: "edit",
    edit: (given) =>
      [given].flat().map((answer) => {
        const one = answer as Answer;
        return isHead(one) ? { ...one, result: change(one.result as object) } : one;
      }),
  });
}

test("a node that has no head is skipped for the next one", async () => {
  const lanes = openLanes(lab.sql, chain, [], LIMITS);
  await lanes.readMarket();
  editHead(() => null);
  spare.methods.length = 0;
  expect((await lanes.readMarket(0)).baseFeePerGas).toBeGreaterThan(0n);
  expect(spare.methods).toContain("eth_getBlockByNumber");
});

test("what a node says about a key that it cannot read is what is reported", async () => {
  const lanes = openLanes(lab.sql, chain, [await newKey(lab)], LIMITS);
  const message = "this account is not available";
  const refuse = (given: unknown) =>
    (given as Answer[]).map(({ id }, place) =>
      place === 2 ? { jsonrpc: "2.0", id, error: { code: 3, message } } : (given as Answer[])[place],
    );
  await lanes.readMarket();
  for (const node of [spare, lab.proxy]) node.fault = () => ({ kind: "edit", edit: refuse });
  try {
    await expect(lanes.readMarket(0)).rejects.toThrow(message);
  } finally {
    lab.proxy.fault = () => undefined;
  }
});

test("each key has its own balance and nonce, and its lane continues where the chain is", async () => {
  const [used, unused] = [await newKey(lab), await newKey(lab)];
  await send(lab.openNetwork({ keys: [used] }), used);
  await lab.rpc("evm_mine");
  await lab.rpc("anvil_setBalance", [unused.address, "0x7"]);
  await lab.sql`update relayers set next_nonce = 0 where address = ${used.address}`;
  const { lanes } = await openLanes(lab.sql, chain, [used, unused], LIMITS).readMarket();
  expect(lanes.map(({ chainNonce }) => chainNonce)).toEqual([1n, 0n]);
  expect(lanes[0]?.balanceWei).toBeGreaterThan(7n);
  expect(lanes[1]?.balanceWei).toBe(7n);
  const [lane] = await lab.sql<{ nextNonce: bigint }[]>`
    select next_nonce from relayers where address = ${used.address}`;
  expect(lane?.nextNonce).toBe(1n);
});

test("a head has the age that its time says, and none when it is of the future; one that is too old is stalled", async () => {
  const lanes = openLanes(lab.sql, chain, [], { ...LIMITS, headMaxAgeS: 60 });
  const readAt = (agoS: number) => {
    const timestamp = `0x${(Math.floor(Date.now() / 1000) - agoS).toString(16)}`;
    editHead((head) => ({ ...head, timestamp }));
    return lanes.readMarket(0);
  };
  await lanes.readMarket();
  const old = await readAt(90);
  expect(old.headAgeS).toBeGreaterThanOrEqual(90);
  expect(old.isStalled).toBe(true);
  expect((await readAt(30)).isStalled).toBe(false);
  expect((await readAt(-30)).headAgeS).toBe(0);
});

test("a node is asked again only when what is known is older than the caller accepts", async () => {
  const lanes = openLanes(lab.sql, chain, [], LIMITS);
  const first = await lanes.readMarket();
  const requests = spare.requests;
  expect(await lanes.readMarket()).toBe(first);
  expect(spare.requests).toBe(requests);
  expect(await lanes.readMarket(0)).not.toBe(first);
});

test("an answer that arrives late does not replace what was asked after it", async () => {
  const lanes = openLanes(lab.sql, chain, [], LIMITS);
  await lanes.readMarket();
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  spare.delay = () => {
    spare.delay = () => undefined;
    return held;
  };
  const late = lanes.readMarket(0);
  const newer = await lanes.readMarket(0);
  release();
  expect((await late).askedAtMs).toBeLessThan(newer.askedAtMs);
  expect(lanes.lastMarket()).toBe(newer);
});
