/** Reinserts operations that a restored backup has lost, from their data on the chain. */
import { newTransactionId, restoredOperationId } from "../../core/domain/ids.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { OperationItem, OperationTerms } from "../../core/domain/wallet-operation.ts";
import type { Tx } from "../postgres/client.ts";
import { toByteaText } from "../postgres/hex-bytes.ts";
import { openHistory } from "./operations.ts";
import { insertRefund } from "./refunds.ts";

export async function findKnownHashes(tx: Tx, network: NetworkId, hashes: readonly Hex[]): Promise<Hex[]> {
  const rows = await tx<{ userOpHash: Hex }[]>`
    select user_op_hash
    from wallet_operations
    where network = ${network} and user_op_hash = any(${[...hashes]}::text[])`;
  return rows.map(({ userOpHash }) => userOpHash);
}

export type LostOperation = {
  sender: Hex;
  userOpHash: Hex;
  nonce: bigint;
  callData: Hex;
  callGas: bigint;
  verificationGas: bigint;
  tag: Hex;
  linkTag: Hex | undefined;
  items: readonly OperationItem[];
  blockTimeS: number;
};

const NO_TERMS: OperationTerms = { owners: [], warnings: [], balanceAfter: "", deploysWallet: false };

/** A transfer that a link gets in the caller's transaction, perhaps not stored yet. */
export type AttributedTransfer = {
  linkId: string;
  txHash: Hex;
  logIndex: number;
  from: Hex;
  amountUnits: bigint;
};

/**
 * Inserts the operation with its recipients, its refund and the history rows that its transfers will take. It is inserted as
 * EXPIRED, like an unconfirmed one: its event makes it MINED, and after a reorganisation it shows as still executable.
 */
export async function restoreOperation(
  tx: Tx,
  network: NetworkId,
  attributed: readonly AttributedTransfer[],
  lost: LostOperation,
): Promise<void> {
  const [wallet] = await tx<{ id: string; userId: string }[]>`
    select id, user_id
    from wallets
    where network = ${network} and address = ${lost.sender}`;
  if (!wallet) return;
  const refunded = await findRefunded(tx, { userId: wallet.userId, network }, attributed, lost);
  const preparedAt = new Date(lost.blockTimeS * 1000);
  const kind = refunded ? "REFUND" : "SEND";
  const id = restoredOperationId(kind, preparedAt, lost.tag);
  const inserted = await tx`
    insert into wallet_operations (
      id, user_id, wallet_id, network, kind, state, user_op_hash, account_nonce, call_data, call_gas, verification_gas,
      terms, challenge_id, expires_at, created_at, restored_at
    )
    select
      ${id}, ${wallet.userId}, ${wallet.id}, ${network}, ${kind}, 'EXPIRED', ${lost.userOpHash},
      ${lost.nonce.toString()}::numeric, ${lost.callData}, ${lost.callGas}, ${lost.verificationGas},
      ${JSON.stringify(NO_TERMS)}::text::jsonb, '', ${preparedAt}, ${preparedAt}, now()
    -- whoever signs chooses the tag, also that of a refund which was only asked for
    where not exists (select from refunds where refunds.id = ${id})
    on conflict do nothing
    returning id`;
  if (inserted.length === 0) return;
  const items = lost.items.map(({ to, amountUnits }, position) => ({
    position,
    to_address: to,
    amount_units: amountUnits.toString(),
  }));
  await tx`
    insert into wallet_operation_items (operation_id, position, to_address, amount_units)
    select ${id}, position, to_address, amount_units
    from json_to_recordset(${JSON.stringify(items)}::text::json)
      as given (position int, to_address text, amount_units bigint)`;
  if (refunded) {
    await insertRefund(tx, {
      ...{ ...refunded, id, userId: wallet.userId, network, toSource: "given", reason: null },
    });
  }
  await openHistory(
    tx,
    { id },
    {
      ids: items.map(newTransactionId),
      linkId: refunded?.linkId ?? null,
      description: refunded?.description ?? null,
      note: null,
    },
  );
}

/** The link of this network that a refund's tag names, and of its transfers the recipient's own, else the largest. */
async function findRefunded(
  tx: Tx,
  { userId, network }: { userId: string; network: NetworkId },
  attributed: readonly AttributedTransfer[],
  { linkTag, items }: LostOperation,
) {
  const [item] = items;
  if (linkTag === undefined || !item) return undefined;
  const given = attributed.map(({ linkId, txHash, logIndex, from, amountUnits }) => ({
    link_id: linkId,
    tx_hash: toByteaText(txHash),
    log_index: logIndex,
    from_address: toByteaText(from),
    amount_units: amountUnits.toString(),
  }));
  const [row] = await tx<{ linkId: string; description: string; paidTxHash: Hex; paidLogIndex: number }[]>`
    select link.id as link_id, link.description, paid.tx_hash as paid_tx_hash, paid.log_index as paid_log_index
    from payment_links link
    cross join lateral (
      select tx_hash, log_index
      from (
        -- each half has its index
        select tx_hash, log_index, from_address, amount_units
        from transfers
        where link_id = link.id and pays and status <> 'ORPHANED'
        union all
        select tx_hash, log_index, from_address, amount_units
        from transfers
        where link_id = link.id and not pays and status <> 'ORPHANED'
        union all
        select tx_hash, log_index, from_address, amount_units
        from json_to_recordset(${JSON.stringify(given)}::text::json)
          as given (link_id text, tx_hash bytea, log_index int, from_address bytea, amount_units numeric)
        where link_id = link.id
      ) received
      order by from_address = ${item.to} desc, amount_units desc
      limit 1
    ) paid
    where link.tag = ${linkTag} and link.user_id = ${userId} and link.network = ${network}`;
  return row && { ...row, toAddress: item.to, amountUnits: item.amountUnits };
}
