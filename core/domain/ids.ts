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
export const newRequestId = () => `req_${token()}`;

/** 128 random bits as 22 URL-safe characters. */
function token(): string {
  return randomBytes(16).toString("base64url");
}
