/** Wallets: one smart account per user and network. */
import { type Hex, NETWORK_IDS, type NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Wallet, wallets } from "../schema.ts";

/** A user's wallets, oldest first. */
export async function listWallets(tx: Tx, userId: string): Promise<Wallet[]> {
  return tx<
    Wallet[]
  >`select ${columnsOf(tx, wallets)} from wallets where user_id = ${userId} order by created_at, network`;
}

export async function findWallet(tx: Tx, userId: string, network: NetworkId): Promise<Wallet | undefined> {
  const [wallet] = await tx<Wallet[]>`
    select ${columnsOf(tx, wallets)} from wallets where user_id = ${userId} and network = ${network}`;
  return wallet;
}

/**
 * Whether any user has a wallet with this address, on any network. Other callers for the same address wait until the transaction ends, because
 * no constraint prevents both from creating it on different networks.
 */
export async function isAddressTaken(tx: Tx, address: Hex): Promise<boolean> {
  await tx`select pg_advisory_xact_lock(hashtext('first wallet of address'), hashtext(${address}))`;
  const rows = await tx`
    select
    from wallets
    where network = any(${[...NETWORK_IDS]}::text[]) and address = ${address}
    limit 1`;
  return rows.length > 0;
}

export type NewWallet = Pick<
  Wallet,
  "id" | "userId" | "network" | "address" | "passkeyId" | "factory" | "owners"
>;

/** Undefined when the user already has a wallet on that network. */
export async function insertWallet(tx: Tx, wallet: NewWallet): Promise<Wallet | undefined> {
  const [row] = await tx<Wallet[]>`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
    values (
      ${wallet.id},
      ${wallet.userId},
      ${wallet.network},
      ${wallet.address},
      ${wallet.passkeyId},
      ${wallet.factory},
      ${wallet.owners}
    )
    on conflict (user_id, network) do nothing
    returning ${columnsOf(tx, wallets)}`;
  return row;
}
