/** Wallets being deployed. */
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Wallet, wallets } from "../schema.ts";

export async function findWalletById(tx: Tx, id: string): Promise<Wallet | undefined> {
  const [row] = await tx<Wallet[]>`
    select ${columnsOf(tx, wallets)}
    from wallets
    where id = ${id}`;
  return row;
}

/** True for the one caller that sets it. */
export async function markWalletDeployed(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`
    update wallets
    set deployed_at = now()
    where id = ${id} and deployed_at is null
    returning id`;
  return rows.length === 1;
}

/** Of wallets whose account was seen on the chain, whoever deployed it: those of which it was not known get their event. */
export async function markWalletsDeployed(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`
    with deployed as (
      update wallets
      set deployed_at = now()
      where id = any(array(
        select id
        from wallets
        where id = any(${[...ids]}::text[]) and deployed_at is null
        order by id
        -- foreign keys to wallets do not wait for it
        for no key update
      ))
      returning id, user_id, network, address
    )
    insert into events (user_id, type, subject_id, data)
    select user_id, 'wallet.deployed', id, jsonb_build_object('network', network, 'address', hex_of(address))
    from deployed`;
}

/** Whether a deployment transaction for this wallet is pending. */
export async function findDeploymentInFlight(tx: Tx, walletId: string): Promise<boolean> {
  const rows = await tx`
    select id
    from relays
    where wallet_id = ${walletId} and state in ('SIGNED', 'BROADCAST')`;
  return rows.length > 0;
}
