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
export const nativeSecp256k1: Secp256k1 | undefined = await loadNative();

export const secp256k1: Secp256k1 = nativeSecp256k1 ?? nobleSecp256k1;

async function loadNative(): Promise<Secp256k1 | undefined> {
  try {
    const { default: bindings } = await import("secp256k1/bindings.js");
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
