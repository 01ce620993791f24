/** Secrets at rest that must be readable again: AES-256-GCM under a key of its own for each purpose, bound to the row that holds it. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;

/** Master secrets, newest first: the first seals, signs and hashes, all of them open and verify. */
export type KeyList = readonly [string, ...string[]];

/** Where a secret belongs: sealed for one place it opens in no other. */
export type SealPlace = { purpose: "webhook secret" | "otp seal"; id: string };

/** Nonce, ciphertext, tag. */
export function seal([masterSecret]: KeyList, place: SealPlace, text: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", deriveKey(masterSecret, place.purpose), nonce);
  cipher.setAAD(Buffer.from(place.id));
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
}

/** Throws when the seal is broken, or made for another place or with a master secret that is not in the list. */
export function unseal(masterSecrets: KeyList, place: SealPlace, sealed: Uint8Array): string {
  const opened = tryUnseal(masterSecrets, place, sealed);
  if (!opened) throw new Error(`the ${place.purpose} of ${place.id} opens with none of the keys given`);
  return opened.text;
}

/** The text, and whether the first master secret sealed it. Undefined when none of the list opens it. */
export function tryUnseal(
  masterSecrets: KeyList,
  place: SealPlace,
  sealed: Uint8Array,
): { text: string; isNewest: boolean } | undefined {
  for (const [index, masterSecret] of masterSecrets.entries()) {
    try {
      return { text: openWith(masterSecret, place, sealed), isNewest: index === 0 };
    } catch {
      // AES-GCM says no more than that it does not fit: another key, another place, or broken
    }
  }
  return undefined;
}

/** One key a purpose, all from one master secret (RFC 5869). */
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
