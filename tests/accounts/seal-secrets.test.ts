/** Secrets at rest: the bytes that are stored, and which keys open them. */
import { expect, test } from "bun:test";
import { createCipheriv, hkdfSync } from "node:crypto";
import { type SealPlace, seal, tryUnseal, unseal } from "../../core/domain/seal-secrets.ts";

const [NEWEST, OLDER] = ["newest master secret", "older master secret"];
const PLACE: SealPlace = { purpose: "webhook secret", id: "whe_1" };

test("a seal is nonce, ciphertext and tag of AES-256-GCM, keyed by HKDF for its purpose and bound to its row", () => {
  const nonce = Buffer.from("0123456789ab");
  const key = Buffer.from(hkdfSync("sha256", NEWEST, "", "webhook secret", 32));
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(Buffer.from("whe_1"));
  const bytes = Buffer.concat([nonce, cipher.update("whsec_ä"), cipher.final(), cipher.getAuthTag()]);
  expect(unseal([NEWEST], PLACE, bytes)).toBe("whsec_ä");
  // 12 bytes of nonce, 8 of text, 16 of tag
  expect(seal([NEWEST], PLACE, "whsec_ä")).toHaveLength(36);
});

test("a seal tells whether it was made with the newest secret", () => {
  const sealed = seal([OLDER], PLACE, "text");
  expect(tryUnseal([OLDER], PLACE, sealed)).toEqual({ text: "text", isNewest: true });
  expect(tryUnseal([NEWEST, OLDER], PLACE, sealed)).toEqual({ text: "text", isNewest: false });
});

test("a seal cannot be opened for another row or purpose, with another secret, or with one bit changed", () => {
  const sealed = seal([NEWEST], PLACE, "text");
  const changed = Buffer.from(sealed);
  changed[14] = (changed[14] ?? 0) ^ 1;
  expect(tryUnseal([NEWEST], { ...PLACE, id: "whe_2" }, sealed)).toBeUndefined();
  expect(tryUnseal([NEWEST], { ...PLACE, purpose: "return secret" }, sealed)).toBeUndefined();
  expect(tryUnseal([OLDER], PLACE, sealed)).toBeUndefined();
  expect(tryUnseal([NEWEST], PLACE, changed)).toBeUndefined();
  expect(tryUnseal([NEWEST], PLACE, sealed.subarray(0, 10))).toBeUndefined();
  expect(() => unseal([OLDER], PLACE, sealed)).toThrow(
    "the webhook secret of whe_1 cannot be decrypted with any of the given keys",
  );
});
