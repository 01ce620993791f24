/** Lets a passkey sign an operation's hash, determines which owner it is, and encodes the signature as the account expects it. */

import { bytesOfBase64Url, bytesOfHex, joinBytes } from "../chain/bytes.ts";
import type { Hex } from "../chain/networks.ts";
import type { Owner } from "./account.ts";
import { encodeSignature, readDer } from "./signature.ts";
import { Fault } from "./user-error.ts";
import type { Credential } from "./wallet-file.ts";

const PROMPT_TIMEOUT_MS = 120_000;
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
  /** The current owners. */
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
          transports: [...transports] as AuthenticatorTransport[],
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
    // an owner whose point is not on the curve cannot sign
    const key = await crypto.subtle
      .importKey("raw", joinBytes(Uint8Array.of(4), point), P256, false, ["verify"])
      .catch(() => undefined);
    if (key && (await crypto.subtle.verify(algorithm, key, signature, signed))) return owner;
  }
  return undefined;
}

function wordOf(value: bigint): Uint8Array<ArrayBuffer> {
  return bytesOfHex(`0x${value.toString(16).padStart(64, "0")}`);
}
