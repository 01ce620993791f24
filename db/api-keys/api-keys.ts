/** API keys: stored as SHA-256, shown once, revoked permanently. */
import type { ApiKeyScope } from "../../core/domain/api-key-scopes.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type ApiKey, apiKeys, type User } from "../schema.ts";

/** `last_used_at` is written at most once in this time, so that a busy key does not cost a write per request. */
const LAST_USED_STEP_S = 60;

export type ApiKeyOwner = { apiKey: Pick<ApiKey, "id" | "scopes">; user: User };

/** The live key with this hash and its user; records its use. */
export async function findLiveApiKey(tx: Tx, keyHash: Uint8Array): Promise<ApiKeyOwner | undefined> {
  const [row] = await tx<(User & { keyId: string; scopes: ApiKeyScope[]; isStale: boolean })[]>`
    select k.id as key_id, k.scopes,
      coalesce(k.last_used_at < now() - make_interval(secs => ${LAST_USED_STEP_S}), true) as is_stale,
      u.id, u.email, u.display_name, u.status, u.created_at, u.updated_at, u.claim_policy, u.match_by_amount
    from api_keys k
    join users u on u.id = k.user_id
    where k.key_hash = ${keyHash} and k.revoked_at is null`;
  if (!row) return undefined;
  const { keyId, scopes, isStale, ...user } = row;
  if (isStale) await tx`update api_keys set last_used_at = now() where id = ${keyId}`;
  return { apiKey: { id: keyId, scopes }, user };
}

export async function insertApiKey(
  tx: Tx,
  key: Pick<ApiKey, "id" | "userId" | "name" | "prefix" | "keyHash" | "scopes"> & { createdBy?: string },
): Promise<ApiKey> {
  const [row] = await tx<ApiKey[]>`
    insert into api_keys (id, user_id, name, prefix, key_hash, scopes, created_by)
    values (${key.id}, ${key.userId}, ${key.name}, ${key.prefix}, ${key.keyHash}, ${key.scopes}, ${key.createdBy ?? null})
    returning ${columnsOf(tx, apiKeys)}`;
  if (!row) throw new Error("insert into api_keys returned no row");
  return row;
}

/** A user's keys, newest first, revoked ones included. */
export async function listApiKeys(tx: Tx, userId: string): Promise<ApiKey[]> {
  return tx<ApiKey[]>`
    select ${columnsOf(tx, apiKeys)} from api_keys where user_id = ${userId} order by created_at desc, id desc`;
}

export async function countLiveApiKeys(tx: Tx, userId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from api_keys where user_id = ${userId} and revoked_at is null`;
  return row?.count ?? 0;
}

/** Whether the key is live. It cannot be revoked until the transaction ends. */
export async function holdApiKey(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`select from api_keys where id = ${id} and revoked_at is null for share`;
  return rows.length === 1;
}

/** Undefined when this user has no such live key. */
export async function revokeApiKey(tx: Tx, id: string, userId: string): Promise<ApiKey | undefined> {
  const [row] = await tx<ApiKey[]>`
    update api_keys
    set revoked_at = now()
    where id = ${id} and user_id = ${userId} and revoked_at is null
    returning ${columnsOf(tx, apiKeys)}`;
  return row;
}

/** Revokes the keys that a member created for a merchant. */
export async function revokeApiKeysOf(
  tx: Tx,
  { userId, createdBy }: { userId: string; createdBy: string },
): Promise<ApiKey[]> {
  return tx<ApiKey[]>`
    update api_keys
    set revoked_at = now()
    where user_id = ${userId} and created_by = ${createdBy} and revoked_at is null
    returning ${columnsOf(tx, apiKeys)}`;
}
