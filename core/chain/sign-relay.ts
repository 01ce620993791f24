/** Signs a relayer's EIP-1559 transaction, and only calls that a relay makes. */
import { hexOf } from "../domain/hex-text.ts";
import { CONTRACTS, type Hex, NETWORK_IDS, NETWORKS } from "../domain/networks.ts";
import { keccak256Bytes } from "./keccak.ts";
import { toAddress } from "./recover-payer.ts";
import { TRANSACTION_GAS_MAX } from "./relay.ts";
import { type Secp256k1, secp256k1 } from "./secp256k1.ts";

export type RelayTransaction = {
  readonly chainId: number;
  readonly nonce: number | bigint;
  readonly to: Hex;
  readonly data: Hex;
  readonly gas: bigint;
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
};

const DYNAMIC_FEE_TYPE = Buffer.from([0x02]);
const EMPTY_LIST: readonly Rlp[] = [];
/** `transferWithAuthorization` in both forms. */
const USDC_SELECTORS: readonly string[] = ["0xe3ee160e", "0xcf092995"];
/** `aggregate3`, `handleOps` and `createAccount`. */
const CONTRACT_SELECTORS: Readonly<Record<string, readonly string[]>> = {
  [CONTRACTS.multicall3]: ["0x82ad56cb"],
  [CONTRACTS.entryPointV06]: ["0x1fad948c"],
  [CONTRACTS.smartWalletFactory]: ["0x3ffba36f"],
};

/** Lower-case address of a relayer's private key. */
export function relayerAddress(privateKey: Hex, engine: Secp256k1 = secp256k1): Hex {
  return toAddress(engine.publicKeyOf(bytesOf(privateKey)));
}

/**
 * The raw transaction and its hash, deterministic for the same input (RFC 6979). The value is always 0. Only the calls of a relay
 * or an empty transfer to oneself are signed; anything else is a RangeError, as is gas above EIP-7825.
 */
export function signRelay(
  privateKey: Hex,
  transaction: RelayTransaction,
  engine: Secp256k1 = secp256k1,
): { raw: Hex; hash: Hex } {
  const { digest, sealWith } = prepareRelay(transaction, () => relayerAddress(privateKey, engine));
  return sealWith(engine.sign(digest, bytesOf(privateKey)));
}

export type UnsignedRelay = {
  /** What the relayer's key signs. */
  digest: Uint8Array;
  /** The raw transaction with this signature, r || s and the parity of R. */
  sealWith(signature: { rs: Uint8Array; parity: number }): { raw: Hex; hash: Hex };
};

/** A relay before it is signed; the same restrictions as `signRelay`. */
export function prepareRelay(transaction: RelayTransaction, relayer: () => Hex): UnsignedRelay {
  const { chainId, nonce, to, data, gas, maxFeePerGas, maxPriorityFeePerGas } = transaction;
  assertAllowed(transaction, relayer);
  const fields = [chainId, nonce, maxPriorityFeePerGas, maxFeePerGas, gas, bytesOf(to), 0, bytesOf(data)];
  const unsigned: Rlp[] = [...fields, EMPTY_LIST];
  return {
    digest: keccak256Bytes(Buffer.concat([DYNAMIC_FEE_TYPE, rlp(unsigned)])),
    sealWith({ rs, parity }) {
      const [r, s] = [rs.subarray(0, 32), rs.subarray(32)].map((half) => BigInt(hexOf(half)));
      const raw = Buffer.concat([DYNAMIC_FEE_TYPE, rlp([...unsigned, parity, r ?? 0n, s ?? 0n])]);
      return { raw: hexOf(raw), hash: hexOf(keccak256Bytes(raw)) };
    },
  };
}

/** Limits the damage of a compromised caller: the relayer's key cannot be made to move the relayer's own funds. */
function assertAllowed({ chainId, to, data, gas }: RelayTransaction, relayer: () => Hex): void {
  const network = NETWORK_IDS.map((id) => NETWORKS[id]).find((one) => one.chainId === chainId);
  if (!network) throw new RangeError(`chain ${chainId} is not one of ours`);
  const target = to.toLowerCase() as Hex;
  const selectors = target === network.usdc.address ? USDC_SELECTORS : CONTRACT_SELECTORS[target];
  const isRelay = selectors?.includes(data.slice(0, 10)) ?? false;
  const isNoop = () => data === "0x" && target === relayer();
  if (!isRelay && !isNoop()) throw new RangeError(`a relayer does not send ${data.slice(0, 10)} to ${to}`);
  if (gas > TRANSACTION_GAS_MAX) throw new RangeError(`gas ${gas} is above the limit of a transaction`);
}

type Rlp = bigint | number | Uint8Array | readonly Rlp[];

/** Recursive length prefix (Yellow Paper, appendix B); integers without leading zeros. */
function rlp(item: Rlp): Buffer {
  if (item instanceof Uint8Array) return rlpBytes(item);
  if (typeof item === "object") return rlpHead(0xc0, Buffer.concat(item.map(rlp)));
  if (item < 0) throw new RangeError(`${item} is negative`);
  return rlpBytes(bigEndian(item));
}

function rlpBytes(bytes: Uint8Array): Buffer {
  if (bytes.length === 1 && (bytes[0] ?? 0) < 0x80) return Buffer.from(bytes);
  return rlpHead(0x80, bytes);
}

function rlpHead(base: number, body: Uint8Array): Buffer {
  if (body.length < 56) return Buffer.concat([Buffer.from([base + body.length]), body]);
  const length = bigEndian(body.length);
  return Buffer.concat([Buffer.from([base + 55 + length.length]), length, body]);
}

/** As few bytes as possible; none for 0. */
function bigEndian(value: bigint | number): Buffer {
  const digits = BigInt(value) === 0n ? "" : value.toString(16);
  return Buffer.from(digits.padStart(digits.length + (digits.length % 2), "0"), "hex");
}

function bytesOf(hex: Hex): Buffer {
  const bytes = Buffer.from(hex.slice(2), "hex");
  if (bytes.length * 2 !== hex.length - 2) throw new RangeError("not whole bytes of hex");
  return bytes;
}
