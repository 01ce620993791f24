/** Whose session, and until when: the conditions of the statements that find, renew and end sessions, one by one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newSessionId } from "../../core/domain/ids.ts";
import { insertIdentityOfSession } from "../../db/accounts/identities.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import {
  deleteOtherSessions,
  deleteSession,
  deleteSessionOf,
  deleteSessionsActingFor,
  deleteSessionsOf,
  deleteSessionsOfRemovedPasskeys,
  findLiveSession,
  holdSession,
  insertSession,
  listLiveSessions,
  noteActedFor,
  noteSessionSeen,
  renewSession,
  type SessionMethod,
} from "../../db/sessions/sessions.ts";
import { logOwner, type SeededPasskey, seedPasskey, seedUser, seedWallet } from "../support/passkey-rows.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const CLIENT = { userAgent: "a browser", clientAddress: "192.0.2.1" };
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

async function open(userId: string, method: SessionMethod = "otp", passkey?: SeededPasskey) {
  const session = { id: newSessionId(), userId, method, ...CLIENT, passkeyId: passkey?.id ?? null };
  return insertSession(sql, session);
}

/** Over by its own time, or by the limit of all renewals. */
const end = (id: string, column: "expires_at" | "absolute_end_at") =>
  sql`update sessions set ${sql(column)} = now() where id = ${id}`;

/** Which of these rows are left. */
async function left(...sessions: readonly { id: string }[]): Promise<boolean[]> {
  const ids = sessions.map(({ id }) => id);
  const rows = await sql<{ id: string }[]>`select id from sessions where id = any(${ids}::text[])`;
  return ids.map((id) => rows.some((row) => row.id === id));
}

describe("a session", () => {
  test("is found by its id and its own user, until either of its ends", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [session, idle, old] = [await open(user), await open(user), await open(user)];
    await end(idle.id, "expires_at");
    await end(old.id, "absolute_end_at");
    expect(await findLiveSession(sql, session.id, user)).toMatchObject({
      ...{ session: { id: session.id, method: "otp" }, user: { id: user } },
    });
    expect(await findLiveSession(sql, session.id, stranger)).toBeUndefined();
    expect(await findLiveSession(sql, newSessionId(), user)).toBeUndefined();
    expect(await findLiveSession(sql, idle.id, user)).toBeUndefined();
    expect(await findLiveSession(sql, old.id, user)).toBeUndefined();
    const held = [session, idle, old].map(({ id }) => holdSession(sql, id));
    expect(await Promise.all(held)).toEqual([true, false, false]);
  });

  test("is renewed by an hour, and no other with it, not beyond its absolute end, and not once it has ended", async () => {
    const user = await seedUser(sql);
    const [session, other, ending, over] = [
      await open(user),
      await open(user),
      await open(user),
      await open(user),
    ];
    await sql`update sessions set expires_at = now() + interval '1 minute' where user_id = ${user}`;
    await sql`update sessions set absolute_end_at = now() + interval '5 minutes' where id = ${ending.id}`;
    await end(over.id, "expires_at");
    const minutesLeft = async (id: string) => {
      const [row] = await sql<{ minutes: number }[]>`
        select round(extract(epoch from expires_at - now()) / 60)::int as minutes from sessions where id = ${id}`;
      return row?.minutes;
    };
    expect(await renewSession(sql, session.id)).toMatchObject({ id: session.id });
    expect(await renewSession(sql, ending.id)).toMatchObject({ id: ending.id });
    expect(await renewSession(sql, over.id)).toBeUndefined();
    expect(await minutesLeft(session.id)).toBe(60);
    expect(await minutesLeft(other.id)).toBe(1);
    expect(await minutesLeft(ending.id)).toBe(5);
  });

  test("records that a passkey was used only if one was", async () => {
    const user = await seedUser(sql);
    const proven: Record<string, boolean> = {};
    for (const method of ["otp", "passkey", "wallet_setup", "google", "recovery"] as const)
      proven[method] = (await open(user, method)).passkeyAt !== null;
    expect(proven).toEqual({ otp: false, passkey: true, wallet_setup: true, google: false, recovery: false });
  });

  test("is listed to its own user while it is live", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [session, idle, old] = [await open(user), await open(user), await open(user)];
    await open(stranger);
    await end(idle.id, "expires_at");
    await end(old.id, "absolute_end_at");
    const listed = await listLiveSessions(sql, user, { currentId: session.id, limit: 10 });
    expect(listed.map(({ id }) => id)).toEqual([session.id]);
  });

  test("records where it is used from, for itself only, and not again within the given time", async () => {
    const user = await seedUser(sql);
    const [session, other] = [await open(user), await open(user)];
    await sql`update sessions set last_seen_at = now() - interval '1 minute' where user_id = ${user}`;
    const see = (clientAddress: string) =>
      noteSessionSeen(sql, session.id, { userAgent: null, clientAddress, everyS: 30 });
    await see("192.0.2.2");
    await see("192.0.2.3");
    const rows = await sql<{ id: string; clientAddress: string }[]>`
      select id, client_address from sessions where user_id = ${user}`;
    const addressOf = (id: string) => rows.find((row) => row.id === id)?.clientAddress;
    expect([addressOf(session.id), addressOf(other.id)]).toEqual(["192.0.2.2", CLIENT.clientAddress]);
  });
});

describe("ending sessions", () => {
  test("ends one live session of its own user, by its id", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [session, other, idle, old] = [
      await open(user),
      await open(user),
      await open(user),
      await open(user),
    ];
    await end(idle.id, "expires_at");
    await end(old.id, "absolute_end_at");
    expect(await deleteSessionOf(sql, stranger, session.id)).toBe(false);
    expect(await deleteSessionOf(sql, user, idle.id)).toBe(false);
    expect(await deleteSessionOf(sql, user, old.id)).toBe(false);
    expect(await left(session, other)).toEqual([true, true]);
    expect(await deleteSessionOf(sql, user, session.id)).toBe(true);
    expect(await left(session, other)).toEqual([false, true]);
  });

  test("ends the session that signs out, and no other", async () => {
    const user = await seedUser(sql);
    const [session, other] = [await open(user), await open(user)];
    expect(await deleteSession(sql, session.id)).toBe(true);
    expect(await deleteSession(sql, session.id)).toBe(false);
    expect(await left(session, other)).toEqual([false, true]);
  });

  test("ends all other sessions of a user, and counts those that were live", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [kept, live, idle, old] = [await open(user), await open(user), await open(user), await open(user)];
    const foreign = await open(stranger);
    await end(idle.id, "expires_at");
    await end(old.id, "absolute_end_at");
    expect(await deleteOtherSessions(sql, user, kept.id)).toBe(1);
    expect(await left(kept, live, idle, old, foreign)).toEqual([true, false, false, false, true]);
  });

  test("ends all of a user, or those of one method", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [byCode, byGoogle, foreign] = [
      await open(user),
      await open(user, "google"),
      await open(stranger, "google"),
    ];
    await deleteSessionsOf(sql, user, "google");
    expect(await left(byCode, byGoogle, foreign)).toEqual([true, false, true]);
    await deleteSessionsOf(sql, user);
    expect(await left(byCode, foreign)).toEqual([false, true]);
  });

  test("ends a member's own that acted for the merchant whose membership ended", async () => {
    const [member, other] = [await seedUser(sql), await seedUser(sql)];
    const [merchant, elsewhere] = [await seedUser(sql), await seedUser(sql)];
    const [acting, actingElsewhere, idle] = [await open(member), await open(member), await open(member)];
    const others = await open(other);
    for (let count = 0; count < 2; count++) await noteActedFor(sql, acting.id, merchant);
    await noteActedFor(sql, actingElsewhere.id, elsewhere);
    await noteActedFor(sql, others.id, merchant);
    expect(await findLiveSession(sql, acting.id, member)).toMatchObject({
      session: { actedFor: [merchant] },
    });
    expect(await findLiveSession(sql, idle.id, member)).toMatchObject({ session: { actedFor: [] } });
    await deleteSessionsActingFor(sql, { userId: member, merchantId: merchant });
    expect(await left(acting, actingElsewhere, idle, others)).toEqual([false, true, true, true]);
  });

  test("ends those opened by a passkey of this user that is no longer an owner", async () => {
    const [user, stranger] = [await seedUser(sql), await seedUser(sql)];
    const [kept, removed] = [await seedPasskey(sql, user), await seedPasskey(sql, user)];
    const foreign = await seedPasskey(sql, stranger);
    for (const owners of [[kept, removed], [foreign]] as const) {
      const wallet = await seedWallet(sql, owners);
      for (const { owner, id } of owners)
        if (id !== kept.id) await logOwner(sql, wallet, owner, { type: "OWNER_REMOVED" });
    }
    const sessions = [
      await open(user, "passkey", kept),
      await open(user, "passkey", removed),
      await open(user),
      await open(stranger, "passkey", foreign),
    ];
    // one that was opened while they were ended is not renewed, and makes nothing that outlasts it
    const renewed = await Promise.all(sessions.map(({ id }) => renewSession(sql, id)));
    expect(renewed.map((session) => session !== undefined)).toEqual([true, false, true, false]);
    const held = await Promise.all(sessions.map(({ id }) => holdSession(sql, id)));
    expect(held).toEqual([true, false, true, false]);
    const linked = await Promise.all(
      sessions.map(({ id, userId }) => {
        const identity = { issuer: "https://issuer.test", subject: id, email: null };
        return insertIdentityOfSession(sql, identity, { sessionId: id, userId });
      }),
    );
    expect(linked).toEqual([true, false, true, false]);
    await deleteSessionsOfRemovedPasskeys(sql, user);
    expect(await left(...sessions)).toEqual([true, false, true, true]);
  });
});
