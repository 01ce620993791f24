import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { keccak256, toHex } from "viem";
import { bloomBitsOf, bloomOf, mayContain } from "../../core/chain/bloom.ts";
import { receiptsRootOf } from "../../core/chain/receipts-root.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { parseHeader } from "../../indexer/source/block-header.ts";
import { readProvenLogs } from "../../indexer/source/verified-block.ts";
import { WatchedSet } from "../../indexer/source/watched-wallets.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type Faults, startFaultProxy } from "../support/fault-proxy.ts";
import {
  type Lab,
  makePayer,
  mine,
  NETWORK,
  openLab,
  pay,
  randomAddress,
  send,
  USDC,
} from "../support/indexer-lab.ts";

setDefaultTimeout(120_000);

type Log = { address: string; topics: string[] };
type Receipt = { logs: Log[] };
type Block = { logsBloom: Hex; receiptsRoot: Hex };

describe("a block's header", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await openLab();
  });
  afterAll(() => lab.stop());

  /** A block of this many transfers, every seventh of which fails. */
  async function makeBlock(transfers: number): Promise<{ block: Block; receipts: Receipt[] }> {
    const { rpcUrl } = lab.chain;
    const [rich, poor] = [await makePayer(lab), await makePayer(lab, 0n)];
    await callRpc(rpcUrl, "evm_setAutomine", [false]);
    for (let n = 0; n < transfers; n++)
      await send(lab, n % 7 === 3 ? poor : rich, USDC, encodeTransfer(randomAddress(), 5n));
    await mine(lab);
    const block = (await callRpc(rpcUrl, "eth_getBlockByNumber", ["latest", false])) as Block;
    return { block, receipts: (await callRpc(rpcUrl, "eth_getBlockReceipts", ["latest"])) as Receipt[] };
  }

  // one node, a branch, two levels (from 16), two-byte keys (from 128), long payloads
  test.each([0, 1, 2, 16, 17, 127, 128, 129, 300])(
    "is matched by its %d receipts, and by no fewer or different ones",
    async (transfers) => {
      const { block, receipts } = await makeBlock(transfers);
      expect(receipts).toHaveLength(transfers);
      expect(receiptsRootOf(receipts)).toBe(block.receiptsRoot);
      expect(bloomOf(receipts.flatMap((receipt) => receipt.logs))).toBe(block.logsBloom);
      if (transfers < 2) return;
      expect(receiptsRootOf(receipts.slice(1))).not.toBe(block.receiptsRoot);
      expect(receiptsRootOf(receipts.toReversed())).not.toBe(block.receiptsRoot);
      const cut = receipts.map((receipt, index) => (index === 0 ? { ...receipt, logs: [] } : receipt));
      expect(receiptsRootOf(cut)).not.toBe(block.receiptsRoot);
    },
  );
});

describe("the logs of a block on a node without receipts", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await openLab();
  });
  afterAll(() => lab.stop());

  /** Three transfers of the same parties: their logs differ in nothing a bloom knows. `draws` are the proxy's: which log, whether it goes. */
  async function readThree(draws: number[], missing: Faults = {}): Promise<number | string> {
    const { rpcUrl } = lab.chain;
    const [from, to] = [await makePayer(lab), randomAddress()];
    await callRpc(rpcUrl, "evm_setAutomine", [false]);
    for (const units of [1n, 2n, 3n]) await pay(lab, from, to, units);
    await mine(lab);
    const header = parseHeader(await callRpc(rpcUrl, "eth_getBlockByNumber", ["latest", false]));
    const proxy = await startFaultProxy(rpcUrl, {
      random: () => draws.shift() ?? 0.9,
      faults: { noReceipts: true, truncatedLogs: 0.5, ...missing },
    });
    const chain = openChain({ network: NETWORK, urls: [proxy.url], timeoutMs: 10_000 });
    try {
      if (!header) throw new Error("there is no block");
      return (await readProvenLogs(chain, header)).length;
    } finally {
      chain.close();
      await proxy.stop();
    }
  }

  test.each([
    ["the first is omitted", [0, 0]],
    ["the last is omitted", [0.99, 0]],
    ["none is omitted", []],
  ])("are read again if %s", async (_, draws) => {
    expect(await readThree(draws)).toBe(3);
  });

  const ALWAYS = Array.from({ length: 50 }, () => 0);

  test("are proven by each transaction's receipt if one is always omitted", async () => {
    expect(await readThree([...ALWAYS])).toBe(3);
  });

  test.each([
    ["the first", 0],
    ["the one in the middle", 0.4],
  ])("are not trusted if %s is always omitted and no receipt is available", async (_, draw) => {
    const draws = ALWAYS.map(() => draw);
    await expect(readThree(draws, { noTransactionReceipts: true })).rejects.toThrow(
      /left out logs|does not exist/,
    );
  });

  test("are proven by the header's bloom if none is omitted and no receipt is available", async () => {
    expect(await readThree([], { noTransactionReceipts: true })).toBe(3);
  });
});

const address = fc.uint8Array({ minLength: 20, maxLength: 20 }).map((bytes) => toHex(bytes));

test("a bloom never denies a log that exists", () => {
  fc.assert(
    fc.property(fc.array(address, { minLength: 1, maxLength: 50 }), (addresses) => {
      const bloom = bloomOf(addresses.map((one) => ({ address: one, topics: [keccak256(one)] })));
      return addresses.every(
        (one) => mayContain(bloom, bloomBitsOf(one)) && mayContain(bloom, bloomBitsOf(keccak256(one))),
      );
    }),
  );
});

/** Some end alike, as an attacker's could, and crowd in one place of the set. */
const crowded = fc.oneof(
  address,
  fc.integer({ min: 0, max: 400 }).map((n): Hex => `0x${n.toString(16).padStart(8, "0")}${"ab".repeat(16)}`),
);

test("the set of wallets answers like a Set, whatever is put in", () => {
  fc.assert(
    fc.property(
      fc.array(crowded, { maxLength: 3_000 }),
      fc.array(crowded, { maxLength: 100 }),
      fc.nat({ max: 6_000 }),
      (given, asked, expected) => {
        const [ours, theirs] = [new WatchedSet(expected), new Set(given)];
        const half = given.length >> 1;
        for (const one of given.slice(0, half)) ours.add(one);
        ours.addLines(
          given
            .slice(half)
            .map((one) => `${one}\n`)
            .join(""),
        );
        expect(ours.size).toBe(theirs.size);
        for (const one of [...given, ...asked]) expect(ours.has(one)).toBe(theirs.has(one));
        expect(new Set(ours)).toEqual(theirs);
      },
    ),
    { numRuns: 30 },
  );
});
