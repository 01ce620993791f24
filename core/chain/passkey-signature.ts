/** Encodes a passkey's assertion as the smart account reads it (`WebAuthnAuth` inside `SignatureWrapper`). */
import { decodeAbiParameters, encodeAbiParameters } from "viem";
import { hexOf } from "../domain/hex-text.ts";
import type { Hex } from "../domain/networks.ts";

/** `response` of an authentication response, base64url. Its challenge is the hash that was signed. */
export type Assertion = {
  readonly authenticatorData: string;
  readonly clientDataJSON: string;
  /** ECDSA on P-256 in DER. */
  readonly signature: string;
};

const AUTH_FIELDS = [
  {
    type: "tuple",
    components: [
      { name: "authenticatorData", type: "bytes" },
      { name: "clientDataJSON", type: "bytes" },
      { name: "challengeIndex", type: "uint256" },
      { name: "typeIndex", type: "uint256" },
      { name: "r", type: "uint256" },
      { name: "s", type: "uint256" },
    ],
  },
] as const;
const WRAPPER_FIELDS = [
  {
    type: "tuple",
    components: [
      { name: "ownerIndex", type: "uint256" },
      { name: "signatureData", type: "bytes" },
    ],
  },
] as const;
const CURVE_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const TYPE_MEMBER = '"type":"webauthn.get"';
const CHALLENGE_MEMBER = '"challenge":"';

/** The same signature under the index that its owner has on another network: the index is not signed. */
export function withOwnerIndex(signature: Hex, ownerIndex: number): Hex {
  const [{ signatureData }] = decodeAbiParameters(WRAPPER_FIELDS, signature);
  return encodeAbiParameters(WRAPPER_FIELDS, [{ ownerIndex: BigInt(ownerIndex), signatureData }]);
}

/**
 * The account's signature bytes. s is normalised to low s, which half of all assertions need; the members of clientDataJSON
 * are searched, because browsers may put others before them. Throws RangeError on a malformed assertion.
 */
export function encodePasskeySignature(assertion: Assertion, ownerIndex: number): Hex {
  const clientData = Buffer.from(assertion.clientDataJSON, "base64url");
  const { r, s } = parseDer(Buffer.from(assertion.signature, "base64url"));
  const auth = {
    authenticatorData: hexOf(Buffer.from(assertion.authenticatorData, "base64url")),
    clientDataJSON: hexOf(clientData),
    challengeIndex: indexOf(clientData, CHALLENGE_MEMBER),
    typeIndex: indexOf(clientData, TYPE_MEMBER),
    r,
    s: s > CURVE_ORDER / 2n ? CURVE_ORDER - s : s,
  };
  const signatureData = encodeAbiParameters(AUTH_FIELDS, [auth]);
  return encodeAbiParameters(WRAPPER_FIELDS, [{ ownerIndex: BigInt(ownerIndex), signatureData }]);
}

/** A byte index, as the contract counts. */
function indexOf(clientData: Buffer, member: string): bigint {
  const index = clientData.indexOf(member);
  if (index < 0) throw new RangeError(`clientDataJSON has no ${member}`);
  return BigInt(index);
}

/** SEQUENCE { INTEGER r, INTEGER s } (RFC 3279 2.2.3), both in [1, n). */
function parseDer(der: Buffer): { r: bigint; s: bigint } {
  if (der[0] !== 0x30 || der[1] !== der.length - 2) throw new RangeError("the signature is not DER");
  const first = parseInteger(der, 2);
  const second = parseInteger(der, first.end);
  if (second.end !== der.length) throw new RangeError("the signature has bytes after s");
  return { r: first.value, s: second.value };
}

function parseInteger(der: Buffer, start: number): { value: bigint; end: number } {
  const end = start + 2 + (der[start + 1] ?? 0);
  if (der[start] !== 0x02 || end > der.length || end === start + 2) {
    throw new RangeError("the signature contains something other than an integer");
  }
  const value = BigInt(hexOf(der.subarray(start + 2, end)));
  if (value === 0n || value >= CURVE_ORDER) throw new RangeError("the signature is out of range");
  return { value, end };
}
