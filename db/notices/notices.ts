/**
 * Notices: e-mails that inform a user about changes to a wallet or account. Each is written with its job in the transaction of the change;
 * a second one with the same key is not sent. Texts: core/domain/notice-mail.ts.
 */
import type { NoticeKind } from "../../core/domain/notice-mail.ts";
import { enqueue } from "../jobs/queue.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Notice, notices } from "./schema.ts";

export type NewNotice = {
  userId: string;
  kind: NoticeKind;
  /** Deduplication key: a second notice with the same key is not written. */
  key: string;
  details: Record<string, string | number | boolean | null>;
};

export async function addNotice(tx: Tx, notice: NewNotice): Promise<void> {
  const [row] = await tx<{ id: bigint }[]>`
    insert into notices (user_id, kind, key, details)
    values (
      ${notice.userId}, ${notice.kind}, ${notice.key}, ${JSON.stringify(notice.details)}::text::jsonb
    )
    on conflict (user_id, key) do nothing
    returning id`;
  if (row) await enqueue(tx, "send_notice", { noticeId: row.id.toString() });
}

/** Priority of notices about wallets: an owner can cause thousands in one block, which would delay the e-mails of other users. */
export const CHAIN_MAILS_AN_HOUR = 60;

/**
 * Of what happened on the chain, in one statement. Of a user's within an hour the first of each kind are mailed: no number of sends hides that an
 * owner was added. The security trail has all. Returns the keys of those that are new: after a reorganisation the same may be deep enough again.
 */
export async function addChainNotices(tx: Tx, notices: readonly NewNotice[]): Promise<Set<string>> {
  if (notices.length === 0) return new Set();
  const rows = notices.map(({ userId, kind, key, details }) => ({ user_id: userId, kind, key, details }));
  const added = await tx<{ id: bigint; key: string; isMailed: boolean }[]>`
    with added as (
      insert into notices (user_id, kind, key, details)
      select user_id, kind, key, details
      from json_to_recordset(${JSON.stringify(rows)}::text::json)
        as given (user_id text, kind text, key text, details jsonb)
      on conflict (user_id, key) do nothing
      returning id, user_id, kind, key
    ),
    earlier as (
      select added.user_id, added.kind, (
          select count(*)
          from notices
          where notices.user_id = added.user_id
            and notices.kind = added.kind
            and notices.created_at > now() - interval '1 hour'
        ) as count
      from added
      group by added.user_id, added.kind
    ),
    placed as (
      select id, user_id, kind, key, row_number() over (partition by user_id, kind order by id) as place
      from added
    )
    select placed.id, placed.key, earlier.count + placed.place <= ${CHAIN_MAILS_AN_HOUR} as is_mailed
    from placed
    join earlier using (user_id, kind)
    order by placed.id`;
  for (const { id, isMailed } of added)
    if (isMailed) await enqueue(tx, "send_notice", { noticeId: id.toString() });
  return new Set(added.map(({ key }) => key));
}

export type UnsentNotice = Notice & { email: string };

export async function findUnsentNotice(tx: Tx, id: string): Promise<UnsentNotice | undefined> {
  const [row] = await tx<UnsentNotice[]>`
    select ${columnsOf(tx, notices, "notice")}, users.email
    from notices notice
    join users on users.id = notice.user_id
    where notice.id = ${id}::bigint and notice.sent_at is null`;
  return row;
}

export async function markNoticeSent(tx: Tx, id: bigint): Promise<void> {
  await tx`update notices set sent_at = now() where id = ${id.toString()}::bigint`;
}
