/**
 * Public identifiers: a prefix that names the type, then at least 128 random bits. Ids of rows that a payment adds begin with their
 * time instead, so that their index grows at its end, and have 90 random bits, which still cannot be guessed.
 */
import { randomBytes, randomUUID } from "node:crypto";

export const newUserId = () => `user_${randomUUID()}`;
export const newChallengeId = () => `ch_${randomUUID()}`;
export const newSessionId = () => `ses_${token()}`;
export const newWalletId = () => `wal_${token()}`;
export const newLinkId = (now?: Date) => `link_${orderedToken(now)}`;
export const newPaymentId = () => `pay_${orderedToken()}`;
export const newClaimId = () => `clm_${orderedToken()}`;
export const newTransactionId = () => `txn_${orderedToken()}`;
export const newDocumentId = () => `doc_${orderedToken()}`;
export const newExportProfileId = () => `epr_${token()}`;
export const newExportScheduleId = () => `exs_${token()}`;
export const newExportId = () => `exp_${token()}`;
export const newWebhookEndpointId = () => `whe_${token()}`;
export const newApiKeyId = () => `key_${token()}`;
export const newInvitationId = () => `inv_${token()}`;
export const newOtpId = () => `otp_${token()}`;
export const newSendId = (now: Date) => `snd_${timedToken(now)}`;
export const newRefundId = (now: Date) => `rfd_${timedToken(now)}`;
/** For an owner change and its operations (one per network): all end in the change's random bytes, which are part of the calldata. */
export function newOwnerChangeIds(now: Date, count: number): string[] {
  const random = randomBytes(16);
  return Array.from({ length: count }, (_, index) => {
    return `own_${timedToken(new Date(now.getTime() + index), random)}`;
  });
}
/** For the same change on another network: the same random bytes with another time. */
export function anotherOwnerChangeId(id: string, now: Date): string {
  return `own_${timedToken(now, Buffer.from(id.slice(-RANDOM_DIGITS), "hex"))}`;
}
/** For an operation whose row was lost: the time of its block, and the 16 random bytes in its calldata. */
export const restoredOperationId = (kind: "SEND" | "REFUND", time: Date, tag: `0x${string}`) =>
  `${kind === "SEND" ? "snd" : "rfd"}_${timeDigits(time)}${tag.slice(2)}`;
export const newRequestId = () => `req_${token()}`;

/** The formats of ids in paths; anything else is not looked up. */
export const USER_ID = /^user_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const LINK_ID = /^link_[A-Za-z0-9_-]{22}$/;
export const PAYMENT_ID = /^pay_[A-Za-z0-9_-]{22}$/;
export const TRANSACTION_ID = /^txn_[0-9a-zA-Z_-]{1,64}$/;
export const DOCUMENT_ID = /^doc_[A-Za-z0-9_-]{22}$/;
export const EXPORT_ID = /^exp_[A-Za-z0-9_-]{22}$/;
export const SEND_ID = /^snd_[0-9a-f]{44}$/;
export const REFUND_ID = /^rfd_[0-9a-f]{44}$/;
export const OWNER_CHANGE_ID = /^own_[0-9a-f]{44}$/;

/** 128 random bits as 22 URL-safe characters. */
function token(): string {
  return randomBytes(16).toString("base64url");
}

const TIME_BYTES = 6;
const RANDOM_DIGITS = 32;

/** The time in milliseconds, then 128 random bits, as 44 hex digits, so that ids sort by creation time. */
function timedToken(now: Date, random = randomBytes(16)): string {
  return timeDigits(now) + random.toString("hex");
}

function timeDigits(now: Date): string {
  const time = Buffer.alloc(TIME_BYTES);
  time.writeUIntBE(now.getTime(), 0, TIME_BYTES);
  return time.toString("hex");
}

/** The URL-safe characters of base64 in the order in which Postgres sorts them. */
const ALPHABET = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
/** 42 bits of milliseconds since 1970: until 2109. */
const TIME_CHARS = 7;
const RANDOM_CHARS = 15;

/** As long as `token()`: the time in milliseconds, then random bits. */
function orderedToken(now = new Date()): string {
  const nowMs = now.getTime();
  const time = Array.from(
    { length: TIME_CHARS },
    (_, place) => ALPHABET[Math.floor(nowMs / 64 ** (TIME_CHARS - 1 - place)) % 64],
  );
  const random = Array.from(randomBytes(RANDOM_CHARS), (byte) => ALPHABET[byte % 64]);
  return [...time, ...random].join("");
}
