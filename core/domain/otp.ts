/**
 * One-time codes that prove an e-mail address: six digits, valid for ten minutes and five attempts, at most one a minute and five an hour
 * (db/accounts/otps.ts applies this). Only the code's HMAC and an encrypted copy are stored; the mail job decrypts the copy, with the
 * pepper, until the code is used, replaced or expired.
 */
import { createHmac, randomInt, timingSafeEqual } from "node:crypto";
import { deriveKey, type KeyList, seal, unseal } from "./seal-secrets.ts";

export const OTP_DIGITS = 6;
export const OTP_LIFE_S = 600;
/** Attempts a code allows, right or wrong. */
export const OTP_ATTEMPTS_MAX = 5;
/** Minimum time between two codes for one address. */
export const OTP_COOL_DOWN_S = 60;
export const OTP_CODES_PER_HOUR = 5;

export const OTP_PATTERN = /^\d{6}$/;

type OtpRef = { id: string; userId: string };

/** Six digits, uniformly distributed (`randomInt` avoids modulo bias). */
export function newOtpCode(): string {
  return String(randomInt(0, 10 ** OTP_DIGITS)).padStart(OTP_DIGITS, "0");
}

/** Bound to the user and the row, so that a code verifies nowhere else. Uses the first pepper. */
export function hmacOtp([pepper]: KeyList, otp: OtpRef, code: string): Buffer {
  return hmacWith(pepper, otp, code);
}

/** Constant-time. Accepts a code hashed with any pepper of the list. */
export function isOtpCode(peppers: KeyList, otp: OtpRef & { codeHmac: Uint8Array }, code: string): boolean {
  return peppers.map((pepper) => timingSafeEqual(hmacWith(pepper, otp, code), otp.codeHmac)).includes(true);
}

/** Bound to the row's id; uses the first pepper. */
export function sealOtp(peppers: KeyList, otp: OtpRef, code: string): Buffer {
  return seal(peppers, { purpose: "otp seal", id: otp.id }, code);
}

/** Throws when the seal is invalid, made for another row or with a pepper that is not in the list. */
export function openSealedOtp(peppers: KeyList, otp: OtpRef, sealed: Uint8Array): string {
  return unseal(peppers, { purpose: "otp seal", id: otp.id }, sealed);
}

function hmacWith(pepper: string, otp: OtpRef, code: string): Buffer {
  return createHmac("sha256", deriveKey(pepper, "otp hmac"))
    .update(`${otp.userId}\n${otp.id}\n${code}`)
    .digest();
}
