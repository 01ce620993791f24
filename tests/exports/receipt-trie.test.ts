/** Proofs of single receipts in blocks of every shape: each index leads to its own receipt and to no other. */
import { expect, test } from "bun:test";
import { keccak256Bytes } from "../../core/chain/keccak.ts";
import { receiptNodes, receiptsRootOf } from "../../core/chain/receipts-root.ts";
import { rlpList, rlpText } from "../../core/chain/rlp.ts";
import { readProof } from "../../core/chain/transfer-proof.ts";
import { TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";

const network = NETWORKS.base;
const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}`;

function receipt(index: number, type: number, address: Hex = network.usdc.address) {
  return {
    ...{
      type: `0x${type.toString(16)}`,
      status: "0x1",
      cumulativeGasUsed: `0x${(21_000 * (index + 1)).toString(16)}`,
    },
    logsBloom: `0x${"00".repeat(256)}`,
    logs: [{ address, topics: [TRANSFER_TOPIC, word(1), word(2)], data: word(index + 1) }],
    ...(type === 0x7e ? { depositNonce: "0x5", depositReceiptVersion: "0x1" } : {}),
  };
}

/** A header of this root, block 7. */
function headerOf(receiptsRoot: Hex): Hex {
  const fields = ["11", "22", "33", "44", "55"].map((byte) => rlpText(byte.repeat(32)));
  const rest = ["07", "", "", "77"].map(rlpText);
  return `0x${rlpList([...fields, rlpText(receiptsRoot.slice(2)), rlpText("00".repeat(256)), rlpText(""), ...rest])}`;
}
const hashOf = (bytes: Hex): Hex =>
  `0x${Buffer.from(keccak256Bytes(Buffer.from(bytes.slice(2), "hex"))).toString("hex")}`;

function proofIn(receipts: readonly unknown[], index: number, transactionIndex = index) {
  const header = headerOf(receiptsRootOf(receipts));
  const nodes = receiptNodes(receipts, index);
  return { blockNumber: 7, blockHash: hashOf(header), header, transactionIndex, logPosition: 0, nodes };
}

test.each([1, 2, 3, 16, 17, 127, 128, 129, 130, 257])(
  "each of %d receipts is proven, only by its own index",
  (count) => {
    const receipts = Array.from({ length: count }, (_, index) =>
      receipt(index, [0, 2, 0x7e][index % 3] ?? 0),
    );
    const indexes = [...new Set([0, 1, 15, 16, 126, 127, 128, 129, 255, 256, count - 1])].filter(
      (one) => one < count,
    );
    for (const index of indexes) {
      expect(readProof(proofIn(receipts, index), network).amountUnits).toBe(BigInt(index + 1));
      for (const other of [index + 1, (index + 128) % 256].filter((one) => one !== index))
        expect(() => readProof(proofIn(receipts, index, other), network)).toThrow(RangeError);
    }
  },
);

test("a failed transaction, another token and a missing node prove nothing", () => {
  const receipts = [
    { ...receipt(0, 2), status: "0x0" },
    receipt(1, 2, `0x${"99".repeat(20)}`),
    receipt(2, 2),
  ];
  expect(() => readProof(proofIn(receipts, 0), network)).toThrow("the transaction failed");
  expect(() => readProof(proofIn(receipts, 1), network)).toThrow("another contract than USDC");
  const proof = proofIn(receipts, 2);
  expect(() => readProof({ ...proof, nodes: proof.nodes.slice(0, -1) }, network)).toThrow(
    "missing or changed",
  );
  expect(() => readProof({ ...proof, blockNumber: 8 }, network)).toThrow("another block number");
  expect(readProof(proof, network)).toMatchObject({ amountUnits: 3n, from: `0x${"1".padStart(40, "0")}` });
});
