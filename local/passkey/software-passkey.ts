/** A WebAuthn authenticator and browser in software: ES256, attestation none or packed (self). For tests, demo and benchmarks. */
import { randomBytes, type webcrypto } from "node:crypto";
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from "@simplewebauthn/server";
import type { Hex } from "../../core/domain/networks.ts";
import { type Cbor, cbor, sha256, toCoseKey, toDer, uint } from "./encoding.ts";

/** The creation options that an authenticator uses (`PublicKeyCredentialCreationOptionsJSON`). */
type CreationOptions = {
  readonly challenge: string;
  readonly rp?: { readonly id?: string };
  readonly user?: { readonly id: string };
  readonly pubKeyCredParams?: readonly { readonly alg: number }[];
  readonly excludeCredentials?: readonly { readonly id: string }[];
};

/** The request options that an authenticator uses (`PublicKeyCredentialRequestOptionsJSON`). */
type RequestOptions = {
  readonly challenge: string;
  readonly rpId?: string;
  readonly allowCredentials?: readonly { readonly id: string }[];
};

/** Deviations of a dishonest or unusual authenticator or page. */
export type PasskeyQuirks = {
  readonly userPresent?: boolean;
  readonly userVerified?: boolean;
  readonly backupEligible?: boolean;
  readonly backedUp?: boolean;
  readonly counter?: number;
  readonly origin?: string;
  /** Signed over instead of the true RP id. */
  readonly rpId?: string;
  readonly type?: string;
  readonly challenge?: string;
  readonly crossOrigin?: boolean;
  /** Members put into clientDataJSON before and after the usual ones. */
  readonly clientDataBefore?: Readonly<Record<string, unknown>>;
  readonly clientDataAfter?: Readonly<Record<string, unknown>>;
  readonly attestation?: "none" | "packed-self";
  /** COSE algorithm written into the key and the attestation. */
  readonly alg?: number;
  /** Written into the COSE key instead of the true point. */
  readonly point?: { readonly x: Uint8Array; readonly y: Uint8Array };
  /** Which of the two valid s; absent: as the signer produced it, half of each. */
  readonly s?: "low" | "high";
};

export type SoftwarePasskey = {
  readonly credentialId: string;
  readonly publicKey: { readonly x: Hex; readonly y: Hex };
  /** Pass it as `key` to recreate the same passkey. */
  readonly key: webcrypto.JsonWebKey;
  readonly register: (options: CreationOptions, quirks?: PasskeyQuirks) => Promise<RegistrationResponseJSON>;
  readonly authenticate: (
    options: RequestOptions,
    quirks?: PasskeyQuirks,
  ) => Promise<AuthenticationResponseJSON>;
};

export type SoftwarePasskeyOptions = PasskeyQuirks & {
  /** The site as page and authenticator see it. */
  readonly rpId: string;
  readonly origin: string;
  readonly key?: webcrypto.JsonWebKey;
  readonly credentialId?: string;
  readonly userHandle?: string;
};

const ES256 = -7;
const CURVE = { name: "ECDSA", namedCurve: "P-256" } as const;
const FLAGS = { userPresent: 0x01, userVerified: 0x04, backupEligible: 0x08, backedUp: 0x10, hasKey: 0x40 };
const AAGUID = Buffer.alloc(16);

/** A passkey of one site. Quirks given here apply to every ceremony, quirks given to a ceremony to that one. */
export async function createSoftwarePasskey(options: SoftwarePasskeyOptions): Promise<SoftwarePasskey> {
  const { rpId, origin, key, credentialId = randomBytes(32).toString("base64url"), ...habits } = options;
  const { privateKey, jwk } = await loadKey(key);
  const point = { x: Buffer.from(jwk.x ?? "", "base64url"), y: Buffer.from(jwk.y ?? "", "base64url") };
  let userHandle = options.userHandle;
  let counter = habits.counter ?? 0;

  async function sign(data: Buffer, s: PasskeyQuirks["s"]): Promise<Buffer> {
    return toDer(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, privateKey, data), s);
  }

  return {
    credentialId,
    publicKey: { x: `0x${point.x.toString("hex")}`, y: `0x${point.y.toString("hex")}` },
    key: jwk,

    async register(creation, once = {}) {
      const quirks = { ...habits, ...once };
      if (creation.rp?.id !== undefined && creation.rp.id !== rpId) throw refusal("SecurityError");
      if (creation.excludeCredentials?.some(({ id }) => id === credentialId))
        throw refusal("InvalidStateError");
      const algorithms = creation.pubKeyCredParams ?? [{ alg: ES256 }];
      if (!algorithms.some(({ alg }) => alg === ES256)) throw refusal("NotSupportedError");
      userHandle = creation.user?.id ?? userHandle;
      const alg = quirks.alg ?? ES256;
      const id = Buffer.from(credentialId, "base64url");
      const coseKey = toCoseKey(quirks.point ?? point, alg);
      const attested = Buffer.concat([AAGUID, uint(id.length, 2), id, coseKey]);
      const authData = toAuthData({ rpId, ...habits, counter, ...once }, attested);
      const clientData = toClientData("webauthn.create", creation.challenge, { origin, ...quirks });
      const isSelf = quirks.attestation === "packed-self";
      const signed = Buffer.concat([authData, sha256(clientData)]);
      const statement: Cbor = isSelf ? { alg, sig: await sign(signed, quirks.s) } : {};
      const attestationObject = cbor({ fmt: isSelf ? "packed" : "none", attStmt: statement, authData });
      return {
        ...envelope(credentialId),
        response: {
          clientDataJSON: clientData.toString("base64url"),
          attestationObject: attestationObject.toString("base64url"),
          transports: ["internal"],
        },
      };
    },

    async authenticate(request, once = {}) {
      const quirks = { ...habits, ...once };
      if (request.rpId !== undefined && request.rpId !== rpId) throw refusal("SecurityError");
      const allowed = request.allowCredentials ?? [];
      if (allowed.length > 0 && !allowed.some(({ id }) => id === credentialId))
        throw refusal("NotAllowedError");
      // A counter of 0 means that the authenticator does not count, as for synced passkeys.
      if (counter > 0) counter += 1;
      const authData = toAuthData({ rpId, ...habits, counter, ...once });
      const clientData = toClientData("webauthn.get", request.challenge, { origin, ...quirks });
      const signature = await sign(Buffer.concat([authData, sha256(clientData)]), quirks.s);
      return {
        ...envelope(credentialId),
        response: {
          clientDataJSON: clientData.toString("base64url"),
          authenticatorData: authData.toString("base64url"),
          signature: signature.toString("base64url"),
          ...(userHandle === undefined ? {} : { userHandle }),
        },
      };
    },
  };
}

async function loadKey(
  known: webcrypto.JsonWebKey | undefined,
): Promise<{ privateKey: CryptoKey; jwk: webcrypto.JsonWebKey }> {
  if (known) {
    return { privateKey: await crypto.subtle.importKey("jwk", known, CURVE, true, ["sign"]), jwk: known };
  }
  const { privateKey } = await crypto.subtle.generateKey(CURVE, true, ["sign", "verify"]);
  return { privateKey, jwk: await crypto.subtle.exportKey("jwk", privateKey) };
}

/** The name is that of the DOMException a browser would reject with. */
function refusal(name: string): Error {
  return Object.assign(new Error(`the authenticator refuses: ${name}`), { name });
}

function envelope(credentialId: string) {
  return {
    id: credentialId,
    rawId: credentialId,
    type: "public-key",
    authenticatorAttachment: "platform",
    clientExtensionResults: {},
  } as const;
}

/** CollectedClientData in the member order of browsers (WebAuthn 5.8.1.1); base64 of either alphabet becomes base64url. */
function toClientData(type: string, challenge: string, quirks: PasskeyQuirks): Buffer {
  const clientData = {
    ...quirks.clientDataBefore,
    type: quirks.type ?? type,
    challenge: quirks.challenge ?? Buffer.from(challenge, "base64url").toString("base64url"),
    origin: quirks.origin,
    crossOrigin: quirks.crossOrigin ?? false,
    ...quirks.clientDataAfter,
  };
  return Buffer.from(JSON.stringify(clientData));
}

/** Authenticator data (WebAuthn 6.1), with the attested credential when there is one. */
function toAuthData(quirks: PasskeyQuirks & { readonly rpId: string }, attested = Buffer.alloc(0)): Buffer {
  const { userPresent = true, userVerified = true, backupEligible = true, backedUp = true } = quirks;
  const flags =
    (userPresent ? FLAGS.userPresent : 0) |
    (userVerified ? FLAGS.userVerified : 0) |
    (backupEligible ? FLAGS.backupEligible : 0) |
    (backedUp ? FLAGS.backedUp : 0) |
    (attested.length > 0 ? FLAGS.hasKey : 0);
  return Buffer.concat([
    sha256(Buffer.from(quirks.rpId)),
    uint(flags, 1),
    uint(quirks.counter ?? 0, 4),
    attested,
  ]);
}
