/** Lets a passkey sign an operation's hash, finds out which owner it is, and encodes the signature as the account reads it. */
import { encodeAbiParameters } from "viem";
import type { Owner } from "./account.ts";
import { bytesOfBase64Url, bytesOfHex, hexOfBytes, joinBytes } from "./bytes.ts";
import { Fault } from "./fault.ts";
import type { Hex } from "./networks.ts";
import type { Credential } from "./wallet-file.ts";

const PROMPT_TIMEOUT_MS = 120_000;
const CURVE_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const P256 = { name: "ECDSA", namedCurve: "P-256" } as const;

/** Whether browsers let a page of this host use passkeys of `rpId` without asking its /.well-known/webauthn. */
export function isOnDomain(host: string, rpId: string): boolean {
  return host === rpId || host.endsWith(`.${rpId}`);
}

export type SignRequest = {
  readonly rpId: string;
  /** Empty: any passkey of the RP id. */
  readonly credentials: readonly Credential[];
  readonly hash: Hex;
  /** Today's owners. */
  readonly owners: readonly Owner[];
};

/** The account's signature bytes. Throws Fault when nothing was signed, or by a passkey that is not an owner. */
export async function signWithPasskey({ rpId, credentials, hash, owners }: SignRequest): Promise<Hex> {
  const response = await askForAssertion({ rpId, credentials, hash });
  const clientData = new Uint8Array(response.clientDataJSON);
  const authenticatorData = new Uint8Array(response.authenticatorData);
  const { r, s } = readDer(new Uint8Array(response.signature));
  const signed = joinBytes(
    authenticatorData,
    new Uint8Array(await crypto.subtle.digest("SHA-256", clientData)),
  );
  const owner = await findSigner(owners, joinBytes(wordOf(r), wordOf(s)), signed);
  if (!owner)
    throw new Fault("This passkey is not an owner of the account any more, or never was. Try another one.");
  return encodeSignature({ clientData, authenticatorData, r, s, ownerIndex: owner.index });
}

async function askForAssertion({ rpId, credentials, hash }: Omit<SignRequest, "owners">) {
  if (!globalThis.PublicKeyCredential)
    throw new Fault(
      "Passkeys do not work here: the page must be opened over https, in a browser that knows passkeys.",
    );
  let credential: Answer;
  try {
    credential = (await navigator.credentials.get({
      publicKey: {
        challenge: bytesOfHex(hash),
        rpId,
        timeout: PROMPT_TIMEOUT_MS,
        userVerification: "required",
        allowCredentials: credentials.map(({ id, transports }) => ({
          id: bytesOfBase64Url(id),
          type: "public-key",
          transports: [...transports],
        })),
      },
    })) as Answer;
  } catch (cause) {
    throw new Fault(explainRefusal(cause, rpId), { cause });
  }
  if (!credential) throw new Fault("The browser returned no passkey. Nothing was signed.");
  return credential.response as AuthenticatorAssertionResponse;
}

type Answer = PublicKeyCredential | null;

function explainRefusal(cause: unknown, rpId: string): string {
  const name = cause instanceof Error ? cause.name : "";
  if (name === "SecurityError")
    return `The browser does not let this page use the passkeys of ${rpId}, because it was opened at ${location.host}. Open it at https://${rpId} as described under "Where this page must be opened".`;
  if (name === "NotAllowedError")
    return "Nothing was signed: the prompt was cancelled or timed out, or no passkey for this wallet is on this device.";
  return `The passkey could not be used: ${cause instanceof Error ? cause.message : String(cause)}`;
}

async function findSigner(
  owners: readonly Owner[],
  signature: Uint8Array<ArrayBuffer>,
  signed: Uint8Array<ArrayBuffer>,
): Promise<Owner | undefined> {
  for (const owner of owners) {
    const point = bytesOfHex(owner.bytes);
    if (point.length !== 64) continue;
    const algorithm = { ...P256, hash: "SHA-256" };
    // a point that is not on the curve is no owner that could sign
    const key = await crypto.subtle
      .importKey("raw", joinBytes(Uint8Array.of(4), point), P256, false, ["verify"])
      .catch(() => undefined);
    if (key && (await crypto.subtle.verify(algorithm, key, signature, signed))) return owner;
  }
  return undefined;
}

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

/** The account takes only the lower of the two valid s, and needs to know where the members of clientDataJSON begin. */
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

function wordOf(value: bigint): Uint8Array<ArrayBuffer> {
  return bytesOfHex(`0x${value.toString(16).padStart(64, "0")}`);
}
