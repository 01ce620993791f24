/** Reads the public key of a WebAuthn credential (COSE_Key, RFC 9053); accepts only keys that the chain can verify. */
import { p256 } from "@noble/curves/nist.js";
import { cose, decodeCredentialPublicKey } from "@simplewebauthn/server/helpers";
import type { PublicKey } from "./passkey-account.ts";

const COORDINATE_BYTES = 32;

/** x and y of an ES256 key on P-256; undefined for every other key, for short coordinates and for points off the curve. */
export function readCoseKey(bytes: Uint8Array): PublicKey | undefined {
  try {
    const key = decodeCredentialPublicKey(Uint8Array.from(bytes));
    if (!cose.isCOSEPublicKeyEC2(key)) return undefined;
    const isEs256 =
      key.get(cose.COSEKEYS.alg) === cose.COSEALG.ES256 && key.get(cose.COSEKEYS.crv) === cose.COSECRV.P256;
    const [x, y] = [key.get(cose.COSEKEYS.x), key.get(cose.COSEKEYS.y)];
    if (!isEs256 || x?.length !== COORDINATE_BYTES || y?.length !== COORDINATE_BYTES) return undefined;
    const [xHex, yHex] = [x, y].map((coordinate) => Buffer.from(coordinate).toString("hex"));
    // Throws for a point off the curve.
    p256.Point.fromHex(`04${xHex}${yHex}`).assertValidity();
    return { x: `0x${xHex}`, y: `0x${yHex}` };
  } catch {
    // Malformed keys and points off the curve are the same refusal.
    return undefined;
  }
}
