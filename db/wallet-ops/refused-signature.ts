/** Queued operations whose signature the account refuses: its signer is no owner at this block. */
import { SEND_WITHIN_S } from "../../core/domain/operation-lifetime.ts";
import type { Tx } from "../postgres/client.ts";

/** Minimum and maximum delay before an operation with a refused signature is simulated again. */
const REFUSED_RETRY_MIN_S = 0.5;
const REFUSED_RETRY_MAX_S = 15;

/**
 * The account refused the signature of a queued operation. True when that is final: refused ever since the ledger was `blocks` blocks
 * lower, so that no reorganisation has taken the signer's addition away only for now; at the account's next nonce, since the signature is
 * checked before the nonce, and what ends behind an earlier nonce could still be executed after another operation that replaced it; and no
 * addition of its signer on its way, within the time in which operations are sent. Otherwise it is due again later, the less often
 * the longer it has waited.
 */
export async function noteRefusedSignature(tx: Tx, id: string, blocks: number): Promise<boolean> {
  const [row] = await tx<{ isFinal: boolean }[]>`
    update wallet_operations op
    set
      signature_refused_block = coalesce(op.signature_refused_block, cursors.number),
      next_try_at = now() + greatest(
        make_interval(secs => ${REFUSED_RETRY_MIN_S}::float8),
        least(make_interval(secs => ${REFUSED_RETRY_MAX_S}::float8), (now() - op.updated_at) / 4)
      )
    from cursors, wallets wallet, passkeys passkey
    where op.id = ${id}
      and op.state = 'QUEUED'
      and cursors.network = op.network
      and wallet.id = op.wallet_id
      and passkey.id = op.passkey_id
    returning
      cursors.number >= op.signature_refused_block + ${blocks}::int
      and (
        mod(op.account_nonce, 18446744073709551616) = 0
        or exists (
          select from wallet_operation_events spent
          where spent.network = op.network
            and spent.sender = hex_of(wallet.address)
            and spent.nonce = op.account_nonce - 1
        )
      )
      and (
        op.updated_at <= now() - make_interval(secs => ${SEND_WITHIN_S}::int)
        or not exists (
          select from wallet_operations addition
          join owner_changes change on change.id = addition.owner_change_id
          where addition.wallet_id = op.wallet_id
            and addition.state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
            and change.action = 'ADD'
            and change.owner = '0x' || encode(passkey.public_key_x || passkey.public_key_y, 'hex')
        )
      ) as is_final`;
  return row?.isFinal ?? false;
}

/** The account accepts the signature, or the chain has refused the operation for another reason. */
export async function forgetRefusedSignature(tx: Tx, id: string): Promise<void> {
  await tx`
    update wallet_operations
    set signature_refused_block = null
    where id = ${id} and state = 'QUEUED'`;
}
