/**
 * Encodes a block header as the bytes that are hashed to the block's hash (Yellow Paper 4.4, with the fields of EIP-1559, 4895, 4844, 4788
 * and 7685).
 */
import type { Hex } from "../domain/networks.ts";
import { fieldOf } from "../rpc/parse-answers.ts";
import { keccak256Bytes } from "./keccak.ts";
import { bytesText, quantityText, readRlp, rlpList, rlpText } from "./rlp.ts";

/** In their order; each of the later ones is there with all before it. */
const FIELDS: readonly (readonly [name: string, kind: "bytes" | "quantity"])[] = [
  ["parentHash", "bytes"],
  ["sha3Uncles", "bytes"],
  ["miner", "bytes"],
  ["stateRoot", "bytes"],
  ["transactionsRoot", "bytes"],
  ["receiptsRoot", "bytes"],
  ["logsBloom", "bytes"],
  ["difficulty", "quantity"],
  ["number", "quantity"],
  ["gasLimit", "quantity"],
  ["gasUsed", "quantity"],
  ["timestamp", "quantity"],
  ["extraData", "bytes"],
  ["mixHash", "bytes"],
  ["nonce", "bytes"],
  ["baseFeePerGas", "quantity"],
  ["withdrawalsRoot", "bytes"],
  ["blobGasUsed", "quantity"],
  ["excessBlobGas", "quantity"],
  ["parentBeaconBlockRoot", "bytes"],
  ["requestsHash", "bytes"],
];
const RECEIPTS_ROOT = 5;
const NUMBER = 8;
const TIMESTAMP = 11;

/** Of a block as JSON-RPC returns it. Undefined when its fields do not make its hash: a kind of header that this does not know. */
export function headerBytes(block: unknown): Hex | undefined {
  const header = encode(block);
  return hashOf(header) === fieldOf(block, "hash") ? header : undefined;
}

/** Of a block as JSON-RPC returns it, whatever it says of its hash. */
export function hashHeader(block: unknown): Hex {
  return hashOf(encode(block));
}

function encode(block: unknown): Hex {
  const fields = FIELDS.flatMap(([name, kind]) => {
    const value = fieldOf(block, name);
    if (typeof value !== "string") return [];
    return rlpText(kind === "bytes" ? bytesText(value) : quantityText(value));
  });
  return `0x${rlpList(fields)}`;
}

export type HeaderFacts = { hash: Hex; receiptsRoot: Hex; number: number; timeS: number };

/** Throws RangeError for bytes that are no header. */
export function readHeader(header: Hex): HeaderFacts {
  const fields = readRlp(header.slice(2));
  const textAt = (index: number) => {
    const field = typeof fields === "string" ? undefined : fields[index];
    if (typeof field !== "string") throw new RangeError("the header lacks a field");
    return field;
  };
  return {
    hash: hashOf(header),
    receiptsRoot: `0x${textAt(RECEIPTS_ROOT)}`,
    number: Number.parseInt(textAt(NUMBER) || "0", 16),
    timeS: Number.parseInt(textAt(TIMESTAMP) || "0", 16),
  };
}

function hashOf(bytes: Hex): Hex {
  return `0x${Buffer.from(keccak256Bytes(Buffer.from(bytes.slice(2), "hex"))).toString("hex")}`;
}
