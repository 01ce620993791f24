/**
 * Verifies a WebAuthn registration or assertion (WebAuthn level 3, sections 7.1 and 7.2) with @simplewebauthn/server, plus the
 * checks that the library leaves to us: ES256 only, length and curve of the key, cross-origin frames, the credential's own id, counters.
 * The caller consumes the challenge first.
 */
import { verifyAuthenticationResponse, verifyRegistrationResponse } from "@simplewebauthn/server";
import {
  cose,
  decodeAttestationObject,
  decodeClientDataJSON,
  isoBase64URL,
  isoCBOR,
} from "@simplewebauthn/server/helpers";
import { readCoseKey } from "../../core/chain/cose-key.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { NewPasskey } from "../../db/auth/passkeys.ts";
import type { Passkey } from "../../db/schema.ts";
import type { ApiConfig } from "../config.ts";
import type { Assertion, Attestation } from "./passkey-wire.ts";

/** Under Bun the library's default list begins with ML-DSA, which no chain verifies. */
export const ES256_ONLY = [cose.COSEALG.ES256];

/** A refusal with a reason for the log; the user gets a generic message. */
export type Refused = { ok: false; reason: string };
export type NewCredential = Omit<NewPasskey, "userId">;
export type Use = { counter: bigint; backedUp: boolean; isSynced: boolean; isRegression: boolean };

export async function verifyNewPasskey(
  { passkey }: Pick<ApiConfig, "passkey">,
  { response, challenge }: { response: Attestation; challenge: Uint8Array },
): Promise<{ ok: true; credential: NewCredential } | Refused> {
  try {
    refuseFrames(response.response.clientDataJSON);
    const attestationObject = withoutForeignStatement(response.response.attestationObject);
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: {
        id: response.id,
        rawId: response.rawId,
        type: response.type,
        clientExtensionResults: {},
        response: { clientDataJSON: response.response.clientDataJSON, attestationObject },
      },
      expectedChallenge: Buffer.from(challenge).toString("base64url"),
      expectedOrigin: passkey.origins,
      expectedRPID: passkey.rpId,
      requireUserVerification: true,
      supportedAlgorithmIDs: ES256_ONLY,
    });
    if (!verified) return { ok: false, reason: "the attestation does not verify" };
    const { credential, credentialDeviceType, credentialBackedUp, aaguid } = registrationInfo;
    if (credential.id !== response.id)
      return { ok: false, reason: "the id is not the one attested by the authenticator" };
    const point = readCoseKey(credential.publicKey);
    if (!point) return { ok: false, reason: "the key is not an ES256 key that can be verified on chain" };
    return {
      ok: true,
      credential: {
        id: credential.id,
        coseKey: credential.publicKey,
        publicKeyX: bytesOf(point.x),
        publicKeyY: bytesOf(point.y),
        counter: BigInt(credential.counter),
        deviceType: credentialDeviceType,
        backedUp: credentialBackedUp,
        transports: response.response.transports ?? [],
        rpId: passkey.rpId,
        aaguid,
      },
    };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

export async function verifyAssertion(
  { passkey: { origins, rpId } }: Pick<ApiConfig, "passkey">,
  given: {
    response: Assertion;
    challenge: Uint8Array;
    passkey: Passkey;
    userVerification: "required" | "preferred";
  },
): Promise<{ ok: true; use: Use } | Refused> {
  const { response, passkey } = given;
  const isSynced = passkey.deviceType === "multiDevice";
  try {
    refuseFrames(response.response.clientDataJSON);
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: {
        id: response.id,
        rawId: response.rawId,
        type: response.type,
        clientExtensionResults: {},
        response: {
          clientDataJSON: response.response.clientDataJSON,
          authenticatorData: response.response.authenticatorData,
          signature: response.response.signature,
        },
      },
      expectedChallenge: Buffer.from(given.challenge).toString("base64url"),
      expectedOrigin: origins,
      expectedRPID: rpId,
      requireUserVerification: given.userVerification === "required",
      credential: {
        id: passkey.id,
        publicKey: new Uint8Array(passkey.coseKey),
        // Copies of a synced credential count separately; refusing them would lock users out of their money.
        counter: isSynced ? 0 : Number(passkey.counter),
      },
    });
    if (!verified) return { ok: false, reason: "the signature does not verify with this passkey" };
    const counter = BigInt(authenticationInfo.newCounter);
    const isRegression = counter <= passkey.counter && !(counter === 0n && passkey.counter === 0n);
    return {
      ok: true,
      use: { counter, backedUp: authenticationInfo.credentialBackedUp, isSynced, isRegression },
    };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

/** The library accepts responses created in a cross-origin frame; we never request one. */
function refuseFrames(clientDataJSON: string): void {
  const { crossOrigin, topOrigin } = decodeClientDataJSON(clientDataJSON);
  if ((crossOrigin !== undefined && crossOrigin !== false) || topOrigin !== undefined)
    throw new Error("the response was created in a cross-origin frame");
}

/**
 * Attestation identifies the authenticator's maker. It is requested as documented but never required: iOS sends none, vendors' root
 * certificates change, and unknown formats appear. So only self attestation, which proves possession of the key, is verified; any other statement is
 * removed first.
 */
function withoutForeignStatement(attestationObject: string): string {
  const decoded = decodeAttestationObject(isoBase64URL.toBuffer(attestationObject));
  const isSelf = decoded.get("fmt") === "packed" && decoded.get("attStmt").get("x5c") === undefined;
  if (isSelf || decoded.get("fmt") === "none") return attestationObject;
  const bare = new Map<string, string | Uint8Array | Map<string, never>>([
    ["fmt", "none"],
    ["attStmt", new Map<string, never>()],
    ["authData", decoded.get("authData")],
  ]);
  return isoBase64URL.fromBuffer(isoCBOR.encode(bare));
}

function bytesOf(hex: Hex): Uint8Array {
  return Buffer.from(hex.slice(2), "hex");
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
