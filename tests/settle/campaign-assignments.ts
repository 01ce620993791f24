/** What a merchant decides about transfers in the ledger campaign, and whether it stands. */
import { assignTransaction, unassignTransaction } from "../../api/transactions/assign-or-unassign.ts";
import { ServiceError } from "../../core/domain/errors.ts";
import type { Sql } from "../../db/postgres/client.ts";

const BY_MERCHANT = { mismatchMinUnits: 0n, trace: { requestId: "req_1", clientAddress: "127.0.0.1" } };
const NEWEST = 8;

type Choose = (rows: readonly { id: string }[]) => { id: string } | undefined;

/** One of the newest transfers without a link. `accept`: also of another amount than the link asks for. */
export async function assignReceived(
  sql: Sql,
  { id: linkId, userId }: { id: string; userId: string },
  { accept, choose }: { accept: boolean; choose: Choose },
): Promise<void> {
  const transactionId = choose(await listReceived(sql, { userId, isLinked: false }))?.id;
  if (transactionId === undefined) return;
  const asked = { ...BY_MERCHANT, userId, transactionId, linkId, accept };
  await assignTransaction(sql, asked).catch(passRefusal);
}

export async function unassignReceived(
  sql: Sql,
  { userId }: { userId: string },
  choose: Choose,
): Promise<void> {
  const transactionId = choose(await listReceived(sql, { userId, isLinked: true }))?.id;
  if (transactionId === undefined) return;
  await unassignTransaction(sql, { ...BY_MERCHANT, userId, transactionId }).catch(passRefusal);
}

function listReceived(sql: Sql, { userId, isLinked }: { userId: string; isLinked: boolean }) {
  return sql<{ id: string }[]>`
    select id
    from transactions
    where owner = owner_key(${userId}) and status = 'CONFIRMED' and type <> 'SEND' and (link_id is not null) = ${isLinked}
    order by block_number desc, log_index
    limit ${NEWEST}`;
}

function passRefusal(error: unknown): void {
  if (!(error instanceof ServiceError)) throw error;
}

/** What the merchant decided stands for a transfer that is there; a decision about one that left the chain, for none. */
export async function assertAssignments(sql: Sql): Promise<void> {
  const broken = await sql`
    select assignment.tx_hash, assignment.log_index, assignment.link_id, transfer.link_id as booked_on
    from assignments assignment
    left join transfers transfer on transfer.tx_hash = bytes_of(assignment.tx_hash)
      and transfer.log_index = assignment.log_index
      and transfer.status <> 'ORPHANED'
    where assignment.orphaned_transfer_id is null and transfer.id is null
      or assignment.link_id is not null and transfer.link_id is distinct from assignment.link_id
        and assignment.orphaned_transfer_id is null
      or exists (
        select from transfers gone
        join transfers back on back.tx_hash = gone.tx_hash and back.authorization_nonce is not distinct from gone.authorization_nonce
        where gone.id = assignment.orphaned_transfer_id and back.status <> 'ORPHANED' and back.amount_units = gone.amount_units
      )`;
  if (broken.length > 0) throw new Error(`decisions that were not kept: ${JSON.stringify(broken)}`);
}
