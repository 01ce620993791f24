/**
 * ECDSA on secp256k1 over 32-byte hashes: libsecp256k1 where its prebuilt binding loads, else @noble/curves.
 * The package's own fallback (elliptic) is never used: it is 40 times slower and is chosen silently.
 */
import { secp256k1 as noble } from "@noble/curves/secp256k1.js";

export type Secp256k1 = {
  readonly name: "native" | "noble";
  /** Uncompressed public key (65 bytes) behind r || s; undefined when there is none. Accepts high s. */
  readonly recover: (hash: Uint8Array, rs: Uint8Array, parity: number) => Uint8Array | undefined;
  /** r || s (64 bytes, low s, RFC 6979 nonce) and the parity of R. */
  readonly sign: (hash: Uint8Array, privateKey: Uint8Array) => { rs: Uint8Array; parity: number };
  /** Uncompressed, 65 bytes. */
  readonly publicKeyOf: (privateKey: Uint8Array) => Uint8Array;
};

export const nobleSecp256k1: Secp256k1 = {
  name: "noble",
  recover(hash, rs, parity) {
    try {
      return noble.Signature.fromBytes(rs).addRecoveryBit(parity).recoverPublicKey(hash).toBytes(false);
    } catch {
      // r or s out of range, or no curve point: noble signals all of them by throwing
      return undefined;
    }
  },
  sign(hash, privateKey) {
    const bytes = noble.sign(hash, privateKey, { prehash: false, lowS: true, format: "recovered" });
    return { rs: bytes.subarray(1), parity: (bytes[0] ?? 0) & 1 };
  },
  publicKeyOf: (privateKey) => noble.getPublicKey(privateKey, false),
};

/** The native engine; undefined where no prebuilt binding fits the platform. */
export function findNativeSecp256k1(): Secp256k1 | undefined {
  if (native === NOT_LOADED) native = loadNative();
  return native;
}
const NOT_LOADED = Symbol("not loaded");
let native: Secp256k1 | undefined | typeof NOT_LOADED = NOT_LOADED;

/** Loads its engine when it is first needed: that takes 20 ms, and an indexer needs none. */
export const secp256k1: Secp256k1 = {
  get name() {
    return engine().name;
  },
  recover: (hash, rs, parity) => engine().recover(hash, rs, parity),
  sign: (hash, privateKey) => engine().sign(hash, privateKey),
  publicKeyOf: (privateKey) => engine().publicKeyOf(privateKey),
};

function engine(): Secp256k1 {
  return findNativeSecp256k1() ?? nobleSecp256k1;
}

function loadNative(): Secp256k1 | undefined {
  try {
    const bindings: typeof import("secp256k1/bindings.js").default = require("secp256k1/bindings.js");
    return {
      name: "native",
      recover(hash, rs, parity) {
        try {
          return bindings.ecdsaRecover(rs, parity, hash, false);
        } catch {
          // same meaning as for noble: the binding throws plain errors only
          return undefined;
        }
      },
      sign(hash, privateKey) {
        const { signature, recid } = bindings.ecdsaSign(hash, privateKey);
        return { rs: signature, parity: recid & 1 };
      },
      publicKeyOf: (privateKey) => bindings.publicKeyCreate(privateKey, false),
    };
  } catch {
    return undefined;
  }
}
