/**
 * Notices: mails that tell a user what happened to a wallet or an account. Each is written with its job in the transaction of the change
 * it reports; a second one with the same key is not sent. Texts: core/domain/notice-mail.ts.
 */
import type { NoticeKind } from "../../core/domain/notice-mail.ts";
import { enqueue } from "../jobs/queue.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Notice, notices } from "./schema.ts";

export type NewNotice = {
  userId: string;
  kind: NoticeKind;
  /** What it is about: a second notice of the same key is not written. */
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
