/** Public identifiers: a prefix that says what it is, then 128 random bits or more. */
import { randomBytes, randomUUID } from "node:crypto";

export const newUserId = () => `user_${randomUUID()}`;
export const newChallengeId = () => `ch_${randomUUID()}`;
export const newSessionId = () => `ses_${token()}`;
export const newWalletId = () => `wal_${token()}`;
export const newLinkId = () => `link_${token()}`;
export const newPaymentId = () => `pay_${token()}`;
export const newClaimId = () => `clm_${token()}`;
export const newTransactionId = () => `txn_${token()}`;
export const newExportId = () => `exp_${token()}`;
export const newWebhookEndpointId = () => `whe_${token()}`;
export const newApiKeyId = () => `key_${token()}`;
export const newOtpId = () => `otp_${token()}`;
export const newSendId = (now: Date) => `snd_${timedToken(now)}`;
export const newRefundId = (now: Date) => `rfd_${timedToken(now)}`;
export const newRequestId = () => `req_${token()}`;

/** 128 random bits as 22 URL-safe characters. */
function token(): string {
  return randomBytes(16).toString("base64url");
}

const TIME_BYTES = 6;

/** The time in milliseconds, then 128 random bits, as 44 hex digits: ids sort by when they were made. */
function timedToken(now: Date): string {
  const time = Buffer.alloc(TIME_BYTES);
  time.writeUIntBE(now.getTime(), 0, TIME_BYTES);
  return Buffer.concat([time, randomBytes(16)]).toString("hex");
}
