/** Encrypts secrets at rest that must be readable again: AES-256-GCM with one derived key per purpose, bound to the row that holds them. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;

/** Master secrets, newest first: the first seals, signs and hashes; all of them open and verify. */
export type KeyList = readonly [string, ...string[]];

/** The row a secret is sealed for; it opens for no other row. */
export type SealPlace = { purpose: "webhook secret" | "otp seal" | "return secret"; id: string };

/** Nonce, ciphertext, tag. */
export function seal([masterSecret]: KeyList, place: SealPlace, text: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", deriveKey(masterSecret, place.purpose), nonce);
  cipher.setAAD(Buffer.from(place.id));
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
}

/** Throws when the seal is invalid, or made for another place or with a master secret that is not in the list. */
export function unseal(masterSecrets: KeyList, place: SealPlace, sealed: Uint8Array): string {
  const opened = tryUnseal(masterSecrets, place, sealed);
  if (!opened)
    throw new Error(`the ${place.purpose} of ${place.id} cannot be decrypted with any of the given keys`);
  return opened.text;
}

/** The text, and whether the first master secret sealed it. Undefined when no secret of the list opens it. */
export function tryUnseal(
  masterSecrets: KeyList,
  place: SealPlace,
  sealed: Uint8Array,
): { text: string; isNewest: boolean } | undefined {
  for (const [index, masterSecret] of masterSecrets.entries()) {
    try {
      return { text: openWith(masterSecret, place, sealed), isNewest: index === 0 };
    } catch {
      // AES-GCM does not distinguish a wrong key, a wrong place and corrupt data
    }
  }
  return undefined;
}

/** One derived key per purpose (HKDF, RFC 5869). */
export function deriveKey(masterSecret: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", masterSecret, "", purpose, KEY_BYTES));
}

function openWith(masterSecret: string, place: SealPlace, sealed: Uint8Array): string {
  const bytes = Buffer.from(sealed);
  const decipher = createDecipheriv(
    "aes-256-gcm",
    deriveKey(masterSecret, place.purpose),
    bytes.subarray(0, NONCE_BYTES),
    { authTagLength: TAG_BYTES },
  );
  decipher.setAAD(Buffer.from(place.id));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  return decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
}
