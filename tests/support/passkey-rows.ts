/** Users, passkeys, wallets and what the chain says of their owners, as rows: for the conditions of who may sign in and sign. */
import { randomBytes } from "node:crypto";
import { newOwnerChangeIds, newUserId, newWalletId } from "../../core/domain/ids.ts";
import { CONTRACTS, type Hex, type NetworkId } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { randomAddress } from "./seed.ts";

export const RP_ID = "localhost";

/** `owner`: its public key, as the account stores it. */
export type SeededPasskey = { id: string; userId: string; owner: Hex };
export type SeededWallet = { id: string; userId: string; network: NetworkId; address: Hex };

export async function seedUser(sql: Sql): Promise<string> {
  const id = newUserId();
  await sql`insert into users (id, email, status) values (${id}, ${`${id.slice(5, 13)}@example.test`}, 'ACTIVE')`;
  return id;
}

/** `key`: the public key of another passkey, which everybody can register a credential with. */
export async function seedPasskey(
  sql: Sql,
  userId: string,
  { rpId = RP_ID, key }: { rpId?: string; key?: Hex } = {},
): Promise<SeededPasskey> {
  const id = randomBytes(16).toString("base64url");
  const point = key ? Buffer.from(key.slice(2), "hex") : randomBytes(64);
  await sql`
    insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
    values (
      ${id}, ${userId}, ${randomBytes(77)}, ${point.subarray(0, 32)}, ${point.subarray(32)}, 'multiDevice', true, ${rpId}
    )`;
  return { id, userId, owner: `0x${point.toString("hex")}` };
}

/** A wallet whose address was computed from these passkeys, of the first one's user. */
export async function seedWallet(
  sql: Sql,
  owners: readonly [SeededPasskey, ...SeededPasskey[]],
  network: NetworkId = "base-sepolia",
): Promise<SeededWallet> {
  const [{ id: passkeyId, userId }] = owners;
  const wallet = { id: newWalletId(), userId, network, address: randomAddress() };
  await sql`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
    values (
      ${wallet.id}, ${userId}, ${network}, ${wallet.address}, ${passkeyId}, ${CONTRACTS.smartWalletFactory},
      ${owners.map(({ owner }) => owner)}
    )`;
  return wallet;
}

type Logged = { type?: "OWNER_ADDED" | "OWNER_REMOVED" | "UPGRADED"; isDeep?: boolean; network?: NetworkId };

let place = 0;

/** What the indexer writes of a log of the account; each is later than the one before. At the depth of a confirmation unless told otherwise. */
export async function logOwner(
  sql: Sql,
  wallet: Pick<SeededWallet, "address" | "network">,
  owner: Hex,
  { type = "OWNER_ADDED", isDeep = true, network = wallet.network }: Logged = {},
): Promise<void> {
  place += 1;
  await sql`
    insert into account_changes (
      network, block_number, block_hash, tx_hash, log_index, wallet_address, type, owner_index, subject, confirmed_at
    )
    values (
      ${network}, ${place}, ${`0x${"a".repeat(64)}`}, ${`0x${"b".repeat(64)}`}, ${place}, ${wallet.address}, ${type}, 1,
      ${owner}, ${isDeep ? new Date() : null}
    )`;
}

/** What a merchant's preparation of an owner change leaves; `member`: whose passkey it adds. Returns its id. */
export async function seedOwnerChange(
  sql: Sql,
  userId: string,
  { owner, member, action = "ADD" }: { owner: Hex; member?: string; action?: "ADD" | "REMOVE" },
): Promise<string> {
  const [id = ""] = newOwnerChangeIds(new Date(), 1);
  await sql`
    insert into owner_changes (id, user_id, action, owner, member_id)
    values (${id}, ${userId}, ${action}, ${owner}, ${member ?? null})`;
  return id;
}
