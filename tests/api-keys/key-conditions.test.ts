/** Which keys are live, and who may list and revoke them: the conditions of the statements, one by one. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { newApiKeyId } from "../../core/domain/ids.ts";
import {
  countLiveApiKeys,
  findLiveApiKey,
  holdApiKey,
  insertApiKey,
  listApiKeys,
  revokeApiKey,
  revokeApiKeysOf,
} from "../../db/api-keys/api-keys.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { seedUser } from "../support/passkey-rows.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

function make(userId: string, createdBy = userId) {
  const key = {
    id: newApiKeyId(),
    userId,
    name: "a key",
    prefix: "sk_",
    keyHash: randomBytes(32),
    createdBy,
  };
  return insertApiKey(sql, { ...key, scopes: ["links:read"] });
}

const isLive = async ({ keyHash }: { keyHash: Uint8Array }) =>
  (await findLiveApiKey(sql, keyHash)) !== undefined;

test("a key is found by its own hash, with its own user, until it is revoked", async () => {
  const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
  const [key, foreign] = [await make(user), await make(stranger)];
  for (const { id, userId, keyHash } of [key, foreign])
    expect(await findLiveApiKey(sql, keyHash)).toMatchObject({ apiKey: { id }, user: { id: userId } });
  expect(await findLiveApiKey(sql, randomBytes(32))).toBeUndefined();
  await sql`update api_keys set revoked_at = now() where id = ${key.id}`;
  expect([await isLive(key), await isLive(foreign)]).toEqual([false, true]);
});

test("a key's use is recorded at most once a minute, and only for the key that was used", async () => {
  const user = await seedUser(sql);
  const [key, other] = [await make(user), await make(user)];
  const usedAt = async (of: { id: string }) => {
    const [row] = await sql<{ lastUsedAt: Date | null }[]>`
      select last_used_at from api_keys where id = ${of.id}`;
    return row?.lastUsedAt ?? null;
  };
  await findLiveApiKey(sql, key.keyHash);
  const first = await usedAt(key);
  expect(first).not.toBeNull();
  expect(await usedAt(other)).toBeNull();
  await findLiveApiKey(sql, key.keyHash);
  expect(await usedAt(key)).toEqual(first);
  await sql`update api_keys set last_used_at = now() - interval '61 seconds' where id = ${key.id}`;
  await findLiveApiKey(sql, key.keyHash);
  expect((await usedAt(key))?.getTime()).toBeGreaterThanOrEqual(first?.getTime() ?? Infinity);
});

test("keys are listed and counted per user; a revoked key is listed but not counted", async () => {
  const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
  const [live, revoked] = [await make(user), await make(user)];
  await make(stranger);
  await sql`update api_keys set revoked_at = now() where id = ${revoked.id}`;
  const ids = (await listApiKeys(sql, user)).map(({ id }) => id);
  expect(ids.sort()).toEqual([live.id, revoked.id].sort());
  expect(await countLiveApiKeys(sql, user)).toBe(1);
});

test("a key is revoked once, only by its own user, and no other key with it", async () => {
  const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
  const [key, other] = [await make(user), await make(user)];
  expect(await revokeApiKey(sql, key.id, stranger)).toBeUndefined();
  expect(await isLive(key)).toBe(true);
  const revoked = await revokeApiKey(sql, key.id, user);
  expect(revoked).toMatchObject({ id: key.id, revokedAt: expect.any(Date) });
  expect(await revokeApiKey(sql, key.id, user)).toBeUndefined();
  expect([await isLive(key), await isLive(other)]).toEqual([false, true]);
});

test("a key is held while it is live, whatever other keys there are", async () => {
  const user = await seedUser(sql);
  const [key, revoked] = [await make(user), await make(user)];
  await revokeApiKey(sql, revoked.id, user);
  const held = [key.id, revoked.id, newApiKeyId()].map((id) => holdApiKey(sql, id));
  expect(await Promise.all(held)).toEqual([true, false, false]);
  let revoking: Promise<unknown> | undefined;
  await sql.begin(async (tx) => {
    expect(await holdApiKey(tx, key.id)).toBe(true);
    revoking = revokeApiKey(sql, key.id, user);
    await Promise.race([revoking, Bun.sleep(100)]);
    expect(await holdApiKey(tx, key.id)).toBe(true);
  });
  await revoking;
  expect(await holdApiKey(sql, key.id)).toBe(false);
});

test("the end of a membership revokes the keys that this member made for this merchant, once", async () => {
  const [merchant, other] = [await seedUser(sql), await seedUser(sql)];
  const [member, colleague] = [await seedUser(sql), await seedUser(sql)];
  const key = await make(merchant, member);
  const kept = [await make(merchant, colleague), await make(other, member), await make(merchant)];
  const end = () => revokeApiKeysOf(sql, { userId: merchant, createdBy: member });
  expect((await end()).map(({ id }) => id)).toEqual([key.id]);
  expect(await end()).toEqual([]);
  expect(await Promise.all([key, ...kept].map(isLive))).toEqual([false, true, true, true]);
});
