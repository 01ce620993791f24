/** Secrets at rest that must be readable again: AES-256-GCM under a key of its own for each purpose, bound to the row that holds it. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;

/** Where a secret belongs: sealed for one place it opens in no other. */
export type SealPlace = { purpose: "webhook secret"; id: string };

/** Nonce, ciphertext, tag. */
export function seal(masterSecret: string, place: SealPlace, text: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", keyOf(masterSecret, place.purpose), nonce);
  cipher.setAAD(Buffer.from(place.id));
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
}

/** Throws when the seal is broken, or made for another place or with another master secret. */
export function unseal(masterSecret: string, place: SealPlace, sealed: Uint8Array): string {
  const bytes = Buffer.from(sealed);
  const decipher = createDecipheriv(
    "aes-256-gcm",
    keyOf(masterSecret, place.purpose),
    bytes.subarray(0, NONCE_BYTES),
    { authTagLength: TAG_BYTES },
  );
  decipher.setAAD(Buffer.from(place.id));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  return decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
}

function keyOf(masterSecret: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", masterSecret, "", purpose, KEY_BYTES));
}
