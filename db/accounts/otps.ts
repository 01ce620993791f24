/** One-time codes: at most one live code a user; every move of one is a single statement. */
import { OTP_ATTEMPTS_MAX, OTP_CODES_PER_HOUR, OTP_COOL_DOWN_S, OTP_LIFE_S } from "../../core/domain/otp.ts";
import type { Tx } from "../postgres/client.ts";
import type { Otp } from "../schema.ts";

/** Seconds until this user may be sent another code; 0 when now. Call with the user's row locked. */
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

/** Puts a new live code in the place of the one before. */
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
 * Buys one comparison of the user's live code. Undefined: there is none to compare. The count and the check are one statement,
 * so that guesses in parallel cannot share an attempt.
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
    returning *`;
  return otp;
}

/** Is the live code one that ran out of attempts? */
export async function isOtpExhausted(tx: Tx, userId: string): Promise<boolean> {
  const rows = await tx`
    select 1
    from otps
    where user_id = ${userId}
      and superseded_at is null
      and consumed_at is null
      and expires_at > now()
      and attempts >= ${OTP_ATTEMPTS_MAX}`;
  return rows.length > 0;
}

/** Uses a code up. False when somebody else was faster. */
export async function consumeOtp(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`
    update otps
    set consumed_at = now(), sealed_code = null
    where id = ${id} and consumed_at is null and superseded_at is null
    returning id`;
  return rows.length > 0;
}

/** A code whose mail may still go out, and the address it goes to. */
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

/** Writes down that this code's mail is about to be handed over. False when it was, or must not be any more. */
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

/** Takes that back, when the mail server surely did not accept it. */
export async function markOtpUnsent(tx: Tx, id: string): Promise<void> {
  await tx`update otps set sent_at = null where id = ${id}`;
}

/** The user's newest code while it can be read. */
export async function findReadableOtp(
  tx: Tx,
  userId: string,
): Promise<(Otp & { sealedCode: Uint8Array }) | undefined> {
  const [otp] = await tx<(Otp & { sealedCode: Uint8Array })[]>`
    select *
    from otps
    where user_id = ${userId}
      and superseded_at is null
      and sealed_code is not null
      and expires_at > now()`;
  return otp;
}

/** Forgets at most `limit` sealed copies of codes that are over; returns how many. */
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
