/**
 * One-time codes that prove an e-mail address. The code is never stored readable: its HMAC compares it, and a sealed copy
 * lets the mail job (and nobody without the pepper) read it until it is used, replaced or over.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  randomBytes,
  randomInt,
  timingSafeEqual,
} from "node:crypto";

export const OTP_DIGITS = 6;
export const OTP_LIFE_S = 600;
/** Comparisons a code allows, right or wrong. */
export const OTP_ATTEMPTS_MAX = 5;
/** Between two codes for one address. */
export const OTP_COOL_DOWN_S = 60;
export const OTP_CODES_PER_HOUR = 5;

export const OTP_PATTERN = /^\d{6}$/;

type OtpRef = { id: string; userId: string };

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Six digits, each code equally likely (`randomInt` rejects what would skew it). */
export function newOtpCode(): string {
  return String(randomInt(0, 10 ** OTP_DIGITS)).padStart(OTP_DIGITS, "0");
}

/** Bound to the user and the row, so that no code verifies anywhere else. */
export function hmacOtp(pepper: string, otp: OtpRef, code: string): Buffer {
  return createHmac("sha256", keyFor(pepper, "otp hmac"))
    .update(`${otp.userId}\n${otp.id}\n${code}`)
    .digest();
}

/** Constant-time. */
export function isOtpCode(pepper: string, otp: OtpRef & { codeHmac: Uint8Array }, code: string): boolean {
  return timingSafeEqual(hmacOtp(pepper, otp, code), otp.codeHmac);
}

/** AES-256-GCM: nonce, ciphertext, tag. The row's id is authenticated with it. */
export function sealOtp(pepper: string, otp: OtpRef, code: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", keyFor(pepper, "otp seal"), nonce);
  cipher.setAAD(Buffer.from(otp.id));
  return Buffer.concat([nonce, cipher.update(code, "utf8"), cipher.final(), cipher.getAuthTag()]);
}

/** Throws when the seal is broken, made for another row or with another pepper. */
export function openSealedOtp(pepper: string, otp: OtpRef, sealed: Uint8Array): string {
  const bytes = Buffer.from(sealed);
  const decipher = createDecipheriv(
    "aes-256-gcm",
    keyFor(pepper, "otp seal"),
    bytes.subarray(0, NONCE_BYTES),
    {
      authTagLength: TAG_BYTES,
    },
  );
  decipher.setAAD(Buffer.from(otp.id));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  return decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
}

/** One key a purpose, all from the pepper (RFC 5869). */
function keyFor(pepper: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", pepper, "", purpose, 32));
}
