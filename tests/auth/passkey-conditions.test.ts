/** Whose challenge, whose passkey, and until when: the conditions of the statements that a sign-in rests on, one by one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { newChallengeId } from "../../core/domain/ids.ts";
import {
  deleteChallengesOf,
  findChallenge,
  hasChallengeOf,
  insertChallenge,
  takeChallenge,
  takeChallengeOf,
} from "../../db/auth/challenges.ts";
import {
  findPasskey,
  insertPasskey,
  listForeignRpIds,
  listPasskeys,
  listPasskeysOfAccount,
  noteUse,
  renamePasskey,
} from "../../db/auth/passkeys.ts";
import { findSignInPasskey, listSignInPasskeys } from "../../db/auth/sign-in-passkeys.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { logOwner, RP_ID, seedPasskey, seedUser, seedWallet } from "../support/passkey-rows.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const OTHER_RP_ID = "old.example.test";
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

describe("a challenge", () => {
  const meant = (userId: string) => ({ userId, purpose: "send" as const });

  async function make(userId: string | null, purpose: "send" | "login" = "send") {
    const challenge = { id: newChallengeId(), userId, purpose, network: null, challenge: randomBytes(48) };
    return insertChallenge(sql, challenge);
  }
  const end = (id: string) => sql`update challenges set expires_at = now() where id = ${id}`;

  test("is consumed once, by its own user for its own purpose; a refused attempt does not consume it", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const { id } = await make(user);
    await make(user);
    expect(await takeChallenge(sql, id, meant(stranger))).toBeUndefined();
    expect(await takeChallenge(sql, id, { userId: null, purpose: "send" })).toBeUndefined();
    expect(await takeChallenge(sql, id, { userId: user, purpose: "login" })).toBeUndefined();
    expect(await takeChallenge(sql, newChallengeId(), meant(user))).toBeUndefined();
    expect(await takeChallenge(sql, id, meant(user))).toMatchObject({ id, userId: user });
    expect(await takeChallenge(sql, id, meant(user))).toBeUndefined();
  });

  test("without a user is consumed without one, not by a user", async () => {
    const { id } = await make(null, "login");
    expect(await takeChallenge(sql, id, { userId: await seedUser(sql), purpose: "login" })).toBeUndefined();
    expect(await takeChallenge(sql, id, { userId: null, purpose: "login" })).toMatchObject({ id });
  });

  test("that has expired is neither found nor consumed, by its id or by its bytes", async () => {
    const user = await seedUser(sql);
    const [first, second] = [await make(user), await make(user)];
    for (const { id } of [first, second]) await end(id);
    expect(await findChallenge(sql, first.id, meant(user))).toBeUndefined();
    expect(await takeChallenge(sql, first.id, meant(user))).toBeUndefined();
    expect(await hasChallengeOf(sql, second.challenge, meant(user))).toBe(false);
    expect(await takeChallengeOf(sql, second.challenge, meant(user))).toBeUndefined();
  });

  test("is found by its id for its own user and purpose only, and is not consumed", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const { id } = await make(user);
    expect(await findChallenge(sql, id, meant(stranger))).toBeUndefined();
    expect(await findChallenge(sql, id, { userId: user, purpose: "login" })).toBeUndefined();
    expect(await findChallenge(sql, newChallengeId(), meant(user))).toBeUndefined();
    for (let count = 0; count < 2; count++)
      expect(await findChallenge(sql, id, meant(user))).toMatchObject({ id });
  });

  test("is consumed once by its bytes, for its own user and purpose only", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const { challenge } = await make(user);
    expect(await hasChallengeOf(sql, challenge, meant(stranger))).toBe(false);
    expect(await hasChallengeOf(sql, challenge, { userId: user, purpose: "login" })).toBe(false);
    expect(await hasChallengeOf(sql, randomBytes(48), meant(user))).toBe(false);
    expect(await hasChallengeOf(sql, challenge, meant(user))).toBe(true);
    expect(await takeChallengeOf(sql, challenge, meant(stranger))).toBeUndefined();
    expect(await takeChallengeOf(sql, challenge, { userId: user, purpose: "login" })).toBeUndefined();
    expect(await takeChallengeOf(sql, randomBytes(48), meant(user))).toBeUndefined();
    expect(await takeChallengeOf(sql, challenge, meant(user))).toBeDefined();
    expect(await takeChallengeOf(sql, challenge, meant(user))).toBeUndefined();
  });

  test("is deleted with the others of its user, and no other user's", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [own, foreign] = [await make(user), await make(stranger)];
    await deleteChallengesOf(sql, user);
    expect(await findChallenge(sql, own.id, meant(user))).toBeUndefined();
    expect(await findChallenge(sql, foreign.id, meant(stranger))).toBeDefined();
  });
});

const idsOf = (passkeys: readonly { id: string }[]) => passkeys.map(({ id }) => id).sort();

describe("a passkey", () => {
  test("is listed and renamed by its own user, only for its own relying party", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const own = await seedPasskey(sql, user);
    const old = await seedPasskey(sql, user, { rpId: OTHER_RP_ID });
    const foreign = await seedPasskey(sql, stranger);
    expect(idsOf(await listPasskeys(sql, user, RP_ID))).toEqual([own.id]);
    expect(idsOf(await listSignInPasskeys(sql, user, RP_ID))).toEqual([own.id]);
    expect(await findPasskey(sql, own.id, user)).toMatchObject({ id: own.id });
    expect(await findPasskey(sql, foreign.id, user)).toBeUndefined();
    const rename = (id: string, userId: string, rpId: string) =>
      renamePasskey(sql, { id, userId, rpId }, "a name");
    expect(await rename(foreign.id, user, RP_ID)).toBeUndefined();
    expect(await rename(old.id, user, RP_ID)).toBeUndefined();
    expect(await rename(own.id, user, RP_ID)).toMatchObject({ id: own.id, name: "a name" });
    expect(await findPasskey(sql, old.id, user)).toMatchObject({ name: null });
  });

  test("of an account is the merchant's or a member's with the role owner, of this relying party", async () => {
    const [merchant, owner, operator] = [await seedUser(sql), await seedUser(sql), await seedUser(sql)];
    const [other, elsewhere] = [await seedUser(sql), await seedUser(sql)];
    for (const [merchantId, userId, role] of [
      [merchant, owner, "owner"],
      [merchant, operator, "operator"],
      [other, elsewhere, "owner"],
    ] as const)
      await sql`
        insert into members (merchant_id, user_id, role, invited_by)
        values (${merchantId}, ${userId}, ${role}, ${merchantId})`;
    const users = [merchant, owner, operator, elsewhere];
    const passkeys = await Promise.all(users.map((userId) => seedPasskey(sql, userId)));
    await seedPasskey(sql, merchant, { rpId: OTHER_RP_ID });
    await seedPasskey(sql, owner, { rpId: OTHER_RP_ID });
    const found = await listPasskeysOfAccount(sql, merchant, RP_ID);
    expect(idsOf(found)).toEqual(idsOf(passkeys.slice(0, 2)));
  });

  test("is registered once, no matter who registers it", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const { id } = await seedPasskey(sql, user);
    const [row] = await listPasskeys(sql, user, RP_ID);
    if (!row) throw new Error("no passkey");
    expect(await insertPasskey(sql, { ...row, userId: stranger })).toBeUndefined();
    expect(await findPasskey(sql, id, stranger)).toBeUndefined();
  });

  test("of another relying party is counted as foreign", async () => {
    const rpId = "counted.example.test";
    const user = await seedUser(sql);
    for (let count = 0; count < 2; count++) await seedPasskey(sql, user, { rpId });
    const foreign = await listForeignRpIds(sql, RP_ID);
    expect(foreign).toContainEqual({ rpId, count: 2 });
    expect(foreign.map((one) => one.rpId)).not.toContain(RP_ID);
  });

  test("of a single device needs a growing counter or none; a synced one is used with any counter", async () => {
    const { id } = await seedPasskey(sql, await seedUser(sql));
    const other = await seedPasskey(sql, await seedUser(sql));
    const use = (counter: bigint, isSynced = false) =>
      noteUse(sql, id, { counter, backedUp: true, isSynced });
    const counterOf = async (of: string) => {
      const [row] = await sql<{ counter: bigint; lastUsedAt: Date | null }[]>`
        select counter, last_used_at from passkeys where id = ${of}`;
      return row;
    };
    expect([await use(0n), await use(0n)]).toEqual([true, true]);
    expect([await use(5n), await use(5n), await use(4n), await use(0n)]).toEqual([true, false, false, false]);
    expect(await use(6n)).toBe(true);
    expect(await use(3n, true)).toBe(true);
    expect((await counterOf(id))?.counter).toBe(6n);
    expect(await counterOf(other.id)).toEqual({ counter: 0n, lastUsedAt: null });
  });
});

describe("a passkey signs in", () => {
  const maySignIn = async ({ id, userId }: { id: string; userId: string }) => {
    const found = await findSignInPasskey(sql, id, userId);
    const isListed = (await listSignInPasskeys(sql, userId, RP_ID)).some((passkey) => passkey.id === id);
    expect(found !== undefined).toBe(isListed);
    return isListed;
  };

  test("only its own user", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const { id } = await seedPasskey(sql, user);
    expect(await findSignInPasskey(sql, id, stranger)).toBeUndefined();
    expect(await findSignInPasskey(sql, id, user)).toMatchObject({ id, userId: user });
  });

  test("while its user has no wallet, and then as an owner the address was computed from", async () => {
    const user = await seedUser(sql);
    const [first, prepared] = [await seedPasskey(sql, user), await seedPasskey(sql, user)];
    await seedWallet(sql, [await seedPasskey(sql, await seedUser(sql))]);
    expect([await maySignIn(first), await maySignIn(prepared)]).toEqual([true, true]);
    await seedWallet(sql, [first]);
    expect([await maySignIn(first), await maySignIn(prepared)]).toEqual([true, false]);
  });

  test("from the confirmation of its addition until the log of its removal", async () => {
    const user = await seedUser(sql);
    const [first, added] = [await seedPasskey(sql, user), await seedPasskey(sql, user)];
    const wallet = await seedWallet(sql, [first]);
    await logOwner(sql, wallet, added.owner, { isDeep: false });
    expect(await maySignIn(added)).toBe(false);
    await sql`update account_changes set confirmed_at = now() where subject = ${added.owner}`;
    expect(await maySignIn(added)).toBe(true);
    await logOwner(sql, wallet, added.owner, { type: "OWNER_REMOVED", isDeep: false });
    await logOwner(sql, wallet, first.owner, { type: "OWNER_REMOVED" });
    expect([await maySignIn(added), await maySignIn(first)]).toEqual([false, false]);
    await logOwner(sql, wallet, first.owner);
    expect([await maySignIn(added), await maySignIn(first)]).toEqual([false, true]);
  });

  test("whatever the logs of another key, wallet or network, or of an upgrade, say", async () => {
    const user = await seedUser(sql);
    const [first, other] = [await seedPasskey(sql, user), await seedPasskey(sql, user)];
    const wallet = await seedWallet(sql, [first]);
    const stranger = await seedPasskey(sql, await seedUser(sql));
    const foreign = await seedWallet(sql, [stranger]);
    await logOwner(sql, wallet, stranger.owner, { type: "OWNER_REMOVED" });
    await logOwner(sql, foreign, first.owner, { type: "OWNER_REMOVED" });
    await logOwner(sql, wallet, first.owner, { type: "OWNER_REMOVED", network: "base" });
    await logOwner(sql, wallet, first.owner, { type: "UPGRADED" });
    expect(await maySignIn(first)).toBe(true);
    await logOwner(sql, wallet, stranger.owner);
    await logOwner(sql, foreign, other.owner);
    await logOwner(sql, wallet, other.owner, { network: "base" });
    expect(await maySignIn(other)).toBe(false);
  });

  test("as long as it owns one of the user's wallets", async () => {
    const user = await seedUser(sql);
    const passkey = await seedPasskey(sql, user);
    const first = await seedWallet(sql, [passkey]);
    await seedWallet(sql, [passkey], "base");
    await logOwner(sql, first, passkey.owner, { type: "OWNER_REMOVED" });
    expect(await maySignIn(passkey)).toBe(true);
    await logOwner(sql, { ...first, network: "base" }, passkey.owner, { type: "OWNER_REMOVED" });
    expect(await maySignIn(passkey)).toBe(true);
  });

  test("according to the later of two logs in one block", async () => {
    const user = await seedUser(sql);
    const passkey = await seedPasskey(sql, user);
    const wallet = await seedWallet(sql, [passkey]);
    await logOwner(sql, wallet, passkey.owner, { type: "OWNER_REMOVED" });
    await logOwner(sql, wallet, passkey.owner);
    await sql`update account_changes set block_number = 0 where subject = ${passkey.owner}`;
    expect(await maySignIn(passkey)).toBe(true);
  });
});
