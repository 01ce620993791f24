/**
 * A transaction returned by a node, trusted only when its hash recomputes from its fields. The sender is recovered from the
 * signature (EIP-2718 types 0 to 4), or is one of the hashed fields (OP-stack deposits, type 0x7e).
 */
import type { RpcTransaction } from "viem";
import { serializeTransaction } from "viem-modules/op-stack/serializers.js";
import { formatTransaction } from "viem-modules/utils/formatters/transaction.js";
import type { Hex } from "../domain/networks.ts";
import { fieldOf } from "../rpc/parse-answers.ts";
import { keccak256Bytes } from "./keccak.ts";
import { toAddress } from "./recover-payer.ts";
import { secp256k1 } from "./secp256k1.ts";

/** `to` is undefined for a contract creation. Lower case. */
export type VerifiedTransaction = { from: Hex; to: Hex | undefined; input: Hex };

const DEPOSIT_TYPE = "0x7e";

/** Reads an `eth_getTransactionByHash` answer. Undefined when it does not produce this hash. */
export function verifyTransaction(answer: unknown, hash: Hex): VerifiedTransaction | undefined {
  try {
    return fieldOf(answer, "type") === DEPOSIT_TYPE ? proveDeposit(answer, hash) : proveSigned(answer, hash);
  } catch {
    // viem throws many formatting and encoding errors; all of them mean that the answer does not produce this hash
    return undefined;
  }
}

function proveSigned(answer: unknown, hash: Hex): VerifiedTransaction | undefined {
  // the signature is kept apart from the fields: viem would serialise one found among them into the signed payload
  const { r, s, v, yParity, ...transaction } = formatTransaction(answer as RpcTransaction);
  const { type, input, to } = transaction;
  const parity = yParity ?? (v >= 35n ? Number((v - 35n) % 2n) : Number(v) - 27);
  const fields = { ...transaction, data: input, to: to ?? undefined };
  const signature = type === "legacy" ? { r, s, v } : { r, s, yParity: parity };
  if (hashOf(serialize(fields, signature)) !== hash) return undefined;
  const publicKey = secp256k1.recover(
    Buffer.from(hashOf(serialize(fields)).slice(2), "hex"),
    Buffer.concat([toWord(r), toWord(s)]),
    parity,
  );
  return publicKey && { from: toAddress(publicKey), to: lower(to), input: input.toLowerCase() as Hex };
}

function proveDeposit(answer: unknown, hash: Hex): VerifiedTransaction | undefined {
  const read = (name: string) => fieldOf(answer, name) as Hex;
  const [from, to, input] = [read("from"), fieldOf(answer, "to") as Hex | null, read("input")];
  const amounts = Object.fromEntries(
    ["mint", "value", "gas"].map((name) => [name, BigInt((fieldOf(answer, name) as string | null) ?? 0)]),
  );
  const fields = { type: "deposit", sourceHash: read("sourceHash"), from, to: to ?? undefined, data: input };
  if (hashOf(serialize({ ...fields, ...amounts, isSystemTx: false })) !== hash) return undefined;
  return { from: from.toLowerCase() as Hex, to: lower(to), input: input.toLowerCase() as Hex };
}

/** viem's types want the exact shape of one transaction type, which is known only from the node's answer. */
function serialize(fields: object, signature?: object): Hex {
  return serializeTransaction(fields as never, signature as never);
}

function hashOf(serialized: Hex): Hex {
  const digest = keccak256Bytes(Buffer.from(serialized.slice(2), "hex"));
  return `0x${Buffer.from(digest).toString("hex")}`;
}

function toWord(quantity: Hex): Buffer {
  return Buffer.from(quantity.slice(2).padStart(64, "0"), "hex");
}

function lower(address: Hex | null): Hex | undefined {
  return address === null ? undefined : (address.toLowerCase() as Hex);
}
