/** Headers of one answer must be one chain: each names the one before as its parent. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { watchOf } from "../../indexer/leader-term.ts";
import { assertChained, type BlockHeader } from "../../indexer/source/block-header.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import { WatchedSet } from "../../indexer/source/watched-wallets.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import { type Lab, mine, NETWORK, openLab } from "../support/indexer-lab.ts";
import { makeBlock, randomHash } from "../support/ledger-lab.ts";

function makeChain(length: number): BlockHeader[] {
  const headers = Array.from({ length }, (_, index) => makeBlock(100 + index));
  return headers.map((header, index) => ({
    ...header,
    parentHash: headers[index - 1]?.hash ?? header.parentHash,
  }));
}

describe("headers", () => {
  const [first, second, third] = makeChain(3) as [BlockHeader, BlockHeader, BlockHeader];

  test("that follow one another are accepted", () => {
    expect(() => assertChained([first, second, third])).not.toThrow();
    expect(() => assertChained([second])).not.toThrow();
  });

  test("error: are refused if one has another parent than the previous one", () => {
    const sibling = { ...second, hash: randomHash() };
    expect(() => assertChained([first, sibling, third])).toThrow("answers from two chains");
    expect(() => assertChained([first, second, { ...third, parentHash: randomHash() }])).toThrow(
      "answers from two chains",
    );
  });

  test("error: are refused if one skips a height", () => {
    expect(() => assertChained([first, { ...second, number: 102 }])).toThrow("answers from two chains");
  });
});

describe("a range read from a node that answers from two chains", () => {
  let lab: Lab;
  let proxy: FaultProxy;
  beforeAll(async () => {
    lab = await openLab();
    proxy = startFaultProxy(lab.chain.rpcUrl);
    await mine(lab, 4);
  });
  afterAll(async () => {
    await proxy?.stop();
    await lab?.stop();
  });

  type Answer = { result?: { number?: Hex; parentHash?: Hex } };

  /** Blocks 1 to 4; the header of `block`, if any, is of a branch that is not the chain's. */
  async function readWith(block?: number): Promise<number[]> {
    const foreign: Hex = randomHash();
    const spoil = (one: Answer): Answer =>
      one.result?.number !== undefined && Number(one.result.number) === block
        ? { ...one, result: { ...one.result, parentHash: foreign } }
        : one;
    proxy.fault = () => ({
      kind: "edit",
      edit: (answer) => (Array.isArray(answer) ? answer.map(spoil) : answer),
    });
    const chain = openChain({ network: NETWORK, urls: [proxy.url], timeoutMs: 10_000 });
    try {
      const contents = await readRange(chain, { from: 1, to: 4 }, watchOf(new WatchedSet()));
      return contents.map((content) => content.block.number);
    } finally {
      chain.close();
    }
  }

  test("is read if it answers from one", async () => {
    expect(await readWith()).toEqual([1, 2, 3, 4]);
  });

  test("error: is not read if a block in the middle has another parent", async () => {
    await expect(readWith(3)).rejects.toThrow("answers from two chains");
  });
});
