/** Recovers the EOA that signed an authorization, on the CPU, by the rules USDC applies on chain. */
import type { Authorization } from "../domain/authorization.ts";
import type { Hex } from "../domain/networks.ts";
import { authorizationDigest, type TokenDomain } from "./authorization-digest.ts";
import { keccak256Bytes } from "./keccak.ts";
import { type Secp256k1, secp256k1 } from "./secp256k1.ts";

const SIGNATURE_BYTES = 65;
/** Half the order of secp256k1: a higher s is refused (EIP-2, FiatToken's ECRecover). */
const LOW_S_MAX = Buffer.from("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0", "hex");

/**
 * The signer's address, lower case, of r, s, v as in `PayerSignature.ecdsa`; undefined for anything the token would refuse:
 * v not 27 or 28, high s, r or s out of range, no such point. Compare the result with `authorization.from`.
 */
export function recoverPayer(
  domain: TokenDomain,
  authorization: Authorization,
  signature: Hex,
  engine: Secp256k1 = secp256k1,
): Hex | undefined {
  const bytes = Buffer.from(signature.slice(2), "hex");
  const parity = (bytes[64] ?? 0) - 27;
  if (bytes.length !== SIGNATURE_BYTES || (parity !== 0 && parity !== 1)) return undefined;
  if (!isLowS(bytes)) return undefined;
  const publicKey = engine.recover(authorizationDigest(domain, authorization), bytes.subarray(0, 64), parity);
  return publicKey && toAddress(publicKey);
}

/** Of r || s: a high s is refused by the chain, and by the token. */
export function isLowS(rs: Uint8Array): boolean {
  return LOW_S_MAX.compare(rs, 32, 64) >= 0;
}

/** Address of an uncompressed public key (65 bytes), lower case. */
export function toAddress(publicKey: Uint8Array): Hex {
  return `0x${Buffer.from(keccak256Bytes(publicKey.subarray(1))).toString("hex", 12)}`;
}
