/** Users: one row per lower-cased e-mail address, and the transitions of its status. */
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type User, users } from "../schema.ts";

export async function findUser(tx: Tx, id: string): Promise<User | undefined> {
  const [user] = await tx<User[]>`select ${columnsOf(tx, users)} from users where id = ${id}`;
  return user;
}

export async function findUserByEmail(tx: Tx, email: string): Promise<User | undefined> {
  const [user] = await tx<User[]>`select ${columnsOf(tx, users)} from users where email = ${email}`;
  return user;
}

/** Locks the row until the transaction ends. */
export async function lockUser(tx: Tx, id: string): Promise<User | undefined> {
  const [user] = await tx<User[]>`select ${columnsOf(tx, users)} from users where id = ${id} for update`;
  return user;
}

/** Locks the rows, in one order. Rows that refer to them can still be written, so whoever holds one of those and records an event of the user does not wait. */
export async function holdUsers(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx`select from users where id = any(${[...ids]}::text[]) order by id for no key update`;
}

/** Locks the row until the transaction ends. */
export async function lockUserByEmail(tx: Tx, email: string): Promise<User | undefined> {
  const [user] = await tx<
    User[]
  >`select ${columnsOf(tx, users)} from users where email = ${email} for update`;
  return user;
}

/** Inserts a REGISTERED user; undefined when the address is taken. */
export async function insertUser(
  tx: Tx,
  user: { id: string; email: string; status?: User["status"] },
): Promise<User | undefined> {
  const [row] = await tx<User[]>`
    insert into users (id, email, status)
    values (${user.id}, ${user.email}, ${user.status ?? "REGISTERED"})
    on conflict (email) do nothing
    returning ${columnsOf(tx, users)}`;
  return row;
}

/** REGISTERED -> WALLET_SETUP_PENDING. Undefined when the user was not REGISTERED. */
export async function markVerified(tx: Tx, id: string): Promise<User | undefined> {
  const [row] = await tx<User[]>`
    update users
    set status = 'WALLET_SETUP_PENDING', updated_at = now()
    where id = ${id} and status = 'REGISTERED'
    returning ${columnsOf(tx, users)}`;
  return row;
}

/** WALLET_SETUP_PENDING -> ACTIVE. Undefined when the user was not WALLET_SETUP_PENDING. */
export async function markActive(tx: Tx, id: string): Promise<User | undefined> {
  const [row] = await tx<User[]>`
    update users
    set status = 'ACTIVE', updated_at = now()
    where id = ${id} and status = 'WALLET_SETUP_PENDING'
    returning ${columnsOf(tx, users)}`;
  return row;
}

/** Omitted settings are unchanged. */
export async function updateSettings(
  tx: Tx,
  id: string,
  settings: { claimPolicy?: User["claimPolicy"] | undefined; matchByAmount?: boolean | undefined },
): Promise<User> {
  const [user] = await tx<User[]>`
    update users
    set
      claim_policy = coalesce(${settings.claimPolicy ?? null}::text, claim_policy),
      match_by_amount = coalesce(${settings.matchByAmount ?? null}::boolean, match_by_amount),
      updated_at = now()
    where id = ${id}
    returning ${columnsOf(tx, users)}`;
  if (!user) throw new Error(`user ${id} no longer exists`);
  return user;
}

export async function setDisplayName(
  tx: Tx,
  id: string,
  displayName: string | null,
): Promise<User | undefined> {
  const [row] = await tx<User[]>`
    update users
    set display_name = ${displayName}, updated_at = now()
    where id = ${id}
    returning ${columnsOf(tx, users)}`;
  return row;
}
