/** One-time codes: at most one live code per user; every transition is a single statement. */
import { OTP_ATTEMPTS_MAX, OTP_CODES_PER_HOUR, OTP_COOL_DOWN_S, OTP_LIFE_S } from "../../core/domain/otp.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Otp, otps } from "../schema.ts";

/** Seconds until this user may be sent another code; 0 when allowed now. Call with the user's row locked. */
export async function secondsUntilNextOtp(tx: Tx, userId: string): Promise<number> {
  const [row] = await tx<{ waitS: number }[]>`
    select ceil(greatest(
      0,
      extract(epoch from max(created_at) + make_interval(secs => ${OTP_COOL_DOWN_S}) - now()),
      case when count(*) >= ${OTP_CODES_PER_HOUR}
        then extract(epoch from min(created_at) + interval '1 hour' - now())
      end
    ))::int as wait_s
    from (
      select created_at
      from otps
      where user_id = ${userId} and created_at > now() - interval '1 hour'
      order by created_at desc
      limit ${OTP_CODES_PER_HOUR}
    ) as recent`;
  return row?.waitS ?? 0;
}

/** Replaces the user's live code. */
export async function replaceOtp(
  tx: Tx,
  otp: { id: string; userId: string; codeHmac: Uint8Array; sealedCode: Uint8Array; requestId: string },
): Promise<void> {
  await tx`
    update otps
    set superseded_at = now(), sealed_code = null
    where user_id = ${otp.userId} and superseded_at is null`;
  await tx`
    insert into otps (id, user_id, code_hmac, sealed_code, expires_at, request_id)
    values (
      ${otp.id},
      ${otp.userId},
      ${otp.codeHmac},
      ${otp.sealedCode},
      now() + make_interval(secs => ${OTP_LIFE_S}),
      ${otp.requestId}
    )`;
}

/**
 * Consumes one attempt at the user's live code. Undefined when there is no code to compare. Count and check are one statement,
 * so that concurrent guesses cannot share an attempt.
 */
export async function takeOtpAttempt(tx: Tx, userId: string): Promise<Otp | undefined> {
  const [otp] = await tx<Otp[]>`
    update otps
    set attempts = attempts + 1
    where user_id = ${userId}
      and superseded_at is null
      and consumed_at is null
      and expires_at > now()
      and attempts < ${OTP_ATTEMPTS_MAX}
    returning ${columnsOf(tx, otps)}`;
  return otp;
}

/** Seconds until another code may be sent, at least 1, when the live code has no attempts left; else undefined. Call with the user's row locked. */
export async function secondsLocked(tx: Tx, userId: string): Promise<number | undefined> {
  const rows = await tx`
    select 1
    from otps
    where user_id = ${userId}
      and superseded_at is null
      and consumed_at is null
      and expires_at > now()
      and attempts >= ${OTP_ATTEMPTS_MAX}`;
  return rows.length > 0 ? Math.max(1, await secondsUntilNextOtp(tx, userId)) : undefined;
}

/** Consumes a code. False when a concurrent request consumed it first. */
export async function consumeOtp(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`
    update otps
    set consumed_at = now(), sealed_code = null
    where id = ${id} and consumed_at is null and superseded_at is null
    returning id`;
  return rows.length > 0;
}

/** A code whose e-mail may still be sent, and its address. */
export type SendableOtp = { id: string; userId: string; sealedCode: Uint8Array; email: string };

export async function findSendableOtp(tx: Tx, id: string): Promise<SendableOtp | undefined> {
  const [row] = await tx<SendableOtp[]>`
    select o.id, o.user_id, o.sealed_code, u.email
    from otps o
    join users u on u.id = o.user_id
    where o.id = ${id}
      and o.sealed_code is not null
      and o.sent_at is null
      and o.superseded_at is null
      and o.consumed_at is null
      and o.expires_at > now()`;
  return row;
}

/** Records, before delivery, that the e-mail is being sent. False when it was already sent or must no longer be sent. */
export async function markOtpSent(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`
    update otps
    set sent_at = now()
    where id = ${id}
      and sent_at is null
      and superseded_at is null
      and consumed_at is null
      and expires_at > now()
    returning id`;
  return rows.length > 0;
}

/** Reverts that when the mail server certainly did not accept the mail. */
export async function markOtpUnsent(tx: Tx, id: string): Promise<void> {
  await tx`update otps set sent_at = null where id = ${id}`;
}

/** The user's newest code while it can be read. */
export async function findReadableOtp(
  tx: Tx,
  userId: string,
): Promise<(Otp & { sealedCode: Uint8Array }) | undefined> {
  const [otp] = await tx<(Otp & { sealedCode: Uint8Array })[]>`
    select ${columnsOf(tx, otps)}
    from otps
    where user_id = ${userId}
      and superseded_at is null
      and sealed_code is not null
      and expires_at > now()`;
  return otp;
}

/** Deletes at most `limit` sealed copies of ended codes; returns how many. */
export async function forgetSealedCodes(tx: Tx, limit: number): Promise<number> {
  const result = await tx`
    update otps
    set sealed_code = null
    where id in (
      select id
      from otps
      where sealed_code is not null and expires_at <= now()
      limit ${limit}
      for update skip locked
    )`;
  return result.count;
}
