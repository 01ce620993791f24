/** Statements signed as JSON Web Signatures (RFC 7515) with Ed25519 (RFC 8037), with keys that a did:web document publishes. Pure. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import { deriveKey, type KeyList } from "./seal-secrets.ts";

export type JwsSigner = {
  /** Compact serialization, signed with the newest key. */
  sign(payload: object): string;
  /** The document that `did:web:HOST` resolves to: all keys, including those that no longer sign. */
  document: object;
};

/** An Ed25519 private key in PKCS #8 is this prefix and 32 bytes (RFC 8410). */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");
const ALGORITHM = "EdDSA";
const KEY_ID_CHARS = 16;

/** `secrets`: newest first. `host` with its port, if it has one. */
export function openJwsSigner(secrets: KeyList, host: string): JwsSigner {
  const did = `did:web:${encodeURIComponent(host)}`;
  const [newest, ...older] = secrets;
  const signing = openKey(newest, did);
  const header = encode({ alg: ALGORITHM, kid: signing.id });
  const keys = [signing, ...older.map((secret) => openKey(secret, did))];
  return {
    sign(payload) {
      const signed = `${header}.${encode(payload)}`;
      return `${signed}.${sign(null, Buffer.from(signed), signing.privateKey).toString("base64url")}`;
    },
    document: {
      "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1"],
      id: did,
      verificationMethod: keys.map(({ id, jwk }) => ({
        id,
        type: "JsonWebKey2020",
        controller: did,
        publicKeyJwk: jwk,
      })),
      assertionMethod: keys.map(({ id }) => id),
    },
  };
}

type OpenKey = { id: string; privateKey: KeyObject; jwk: object };

/** The id is derived from the public key, so it does not depend on the key's position in the list. */
function openKey(secret: string, did: string): OpenKey {
  const der = Buffer.concat([PKCS8_PREFIX, deriveKey(secret, "offer signing")]);
  const privateKey = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const { x = "" } = createPublicKey(privateKey).export({ format: "jwk" });
  const digest = createHash("sha256").update(x).digest("base64url").slice(0, KEY_ID_CHARS);
  return { id: `${did}#${digest}`, privateKey, jwk: { kty: "OKP", crv: "Ed25519", alg: ALGORITHM, x } };
}

/** With sorted keys, so that equal payloads have equal bytes. */
function encode(value: object): string {
  const sorted = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Buffer.from(JSON.stringify(Object.fromEntries(sorted))).toString("base64url");
}
