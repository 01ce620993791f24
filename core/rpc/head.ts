/** The fields of a block's header that the service uses. */
import type { Hex } from "../domain/networks.ts";
import type { Chain } from "./chain-client.ts";
import { RpcTransportError } from "./errors.ts";
import { fieldOf, parseData, parseQuantity } from "./parse-answers.ts";

export type Header = {
  readonly number: number;
  readonly hash: Hex;
  readonly parentHash: Hex;
  readonly timestampS: number;
  readonly baseFeePerGas: bigint;
  /** 256 bytes; says which logs the block cannot hold. */
  readonly logsBloom: Hex;
};

/** The newest block of the healthiest node. Throws RpcTransportError when none answers. */
export async function readHead(chain: Chain): Promise<Header> {
  const header = parseHeader(await chain.request("eth_getBlockByNumber", ["latest", false]));
  if (!header) throw new RpcTransportError("malformed", `${chain.network.id}: a node has no latest block`);
  return header;
}

/** Reads the answer of `eth_getBlockByNumber` or `…ByHash`; undefined when the node does not know the block. */
export function parseHeader(block: unknown): Header | undefined {
  if (block === null) return undefined;
  const quantity = (name: string) => parseQuantity(fieldOf(block, name), `block ${name}`);
  const word = (name: string) => parseData(fieldOf(block, name), `block ${name}`, 32);
  return {
    number: Number(quantity("number")),
    hash: word("hash"),
    parentHash: word("parentHash"),
    timestampS: Number(quantity("timestamp")),
    baseFeePerGas: quantity("baseFeePerGas"),
    logsBloom: parseData(fieldOf(block, "logsBloom"), "block logsBloom", 256),
  };
}
