/** Operations that can no longer be signed: EXPIRED, which frees their Idempotency-Keys and what refunds reserve. */
import type { Tx } from "../postgres/client.ts";

/** AWAITING_SIGNATURE -> EXPIRED for overdue ones, of one user or of all. */
export async function expireOperations(
  tx: Tx,
  { userId, limit }: { userId?: string; limit: number },
): Promise<number> {
  const rows = await tx`
    update wallet_operations
    set state = 'EXPIRED', updated_at = now()
    where id = any(array(
      select id
      from wallet_operations
      where state = 'AWAITING_SIGNATURE'
        and expires_at <= now()
        ${userId === undefined ? tx`` : tx`and user_id = ${userId}`}
      order by expires_at
      limit ${limit}
      for update skip locked
    ))
    returning id`;
  return rows.length;
}

/** AWAITING_SIGNATURE -> EXPIRED for those whose challenge, the only one they can be signed with, was used up. */
export async function expireUnsignable(
  tx: Tx,
  { ids, challengeId }: { ids: readonly string[]; challengeId: string },
): Promise<void> {
  await tx`
    update wallet_operations
    set state = 'EXPIRED', updated_at = now()
    where id = any(array(
      select id
      from wallet_operations
      where id = any(${[...ids]}::text[]) and challenge_id = ${challengeId} and state = 'AWAITING_SIGNATURE'
      order by id
      for update
    ))`;
}
