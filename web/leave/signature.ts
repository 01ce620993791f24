/** Encodes a passkey's assertion as the account expects it: `WebAuthnAuth` inside `SignatureWrapper`. */
import { encodeAbiParameters } from "viem";
import { hexOfBytes } from "../chain/bytes.ts";
import type { Hex } from "../chain/networks.ts";
import { Fault } from "./user-error.ts";

const CURVE_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
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

type Assertion = {
  readonly clientData: Uint8Array;
  readonly authenticatorData: Uint8Array;
  readonly r: bigint;
  readonly s: bigint;
  readonly ownerIndex: number;
};

/** The account accepts only the lower of the two valid s, and needs the offsets of two members of clientDataJSON. */
export function encodeSignature({ clientData, authenticatorData, r, s, ownerIndex }: Assertion): Hex {
  const auth = {
    authenticatorData: hexOfBytes(authenticatorData),
    clientDataJSON: hexOfBytes(clientData),
    challengeIndex: placeOf(clientData, '"challenge":"'),
    typeIndex: placeOf(clientData, '"type":"webauthn.get"'),
    r,
    s: s > CURVE_ORDER / 2n ? CURVE_ORDER - s : s,
  };
  const signatureData = encodeAbiParameters(AUTH_FIELDS, [auth]);
  return encodeAbiParameters(WRAPPER_FIELDS, [{ ownerIndex: BigInt(ownerIndex), signatureData }]);
}

/** In bytes, as the contract counts: one char of this decoding is one byte. */
function placeOf(clientData: Uint8Array, member: string): bigint {
  const place = Array.from(clientData, (byte) => String.fromCharCode(byte))
    .join("")
    .indexOf(member);
  if (place < 0) throw new Fault(`The passkey's answer has no ${member}.`);
  return BigInt(place);
}

/** SEQUENCE { INTEGER r, INTEGER s } (RFC 3279 2.2.3). */
export function readDer(der: Uint8Array): { r: bigint; s: bigint } {
  const first = readInteger(der, 2);
  const second = readInteger(der, first.end);
  if (der[0] !== 0x30 || der[1] !== der.length - 2 || second.end !== der.length)
    throw new Fault("The passkey's signature is malformed.");
  return { r: first.value, s: second.value };
}

function readInteger(der: Uint8Array, start: number): { value: bigint; end: number } {
  const length = der[start + 1] ?? 0;
  const bytes = der.subarray(start + 2, start + 2 + length);
  if (der[start] !== 0x02 || length === 0 || bytes.length !== length)
    throw new Fault("The passkey's signature is malformed.");
  return { value: BigInt(hexOfBytes(bytes)), end: start + 2 + length };
}
