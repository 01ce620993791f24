/** Rows that nothing ends are kept for a time, and those that something still needs beyond it. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { newExportId } from "../../core/domain/ids.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { lockUser, markVerified } from "../../db/accounts/users.ts";
import type { EventPosition } from "../../db/events/cursor-history.ts";
import { listEvents } from "../../db/events/event-log.ts";
import { insertExport } from "../../db/exports/exports.ts";
import {
  deleteLeftovers,
  deleteOldEvents,
  deleteOldSecurityEvents,
  deleteUnverifiedUsers,
  dropSignedBytes,
} from "../../db/jobs/delete-old-rows.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { insertRelay, readCallData, readRaw } from "../../db/relays/relays.ts";
import { seedPasskey, seedUser, seedWallet } from "../support/passkey-rows.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";

const NETWORK = "base-sepolia";
const LIMIT = 1_000;

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
}, 120_000);
beforeEach(async () => {
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

const randomHash = () => `0x${randomBytes(32).toString("hex")}` as const;

/** Each in a transaction of its own, in this order, begun when no older transaction of the server runs, also another database's. */
async function newEvents(ages: readonly string[]): Promise<string[]> {
  for (const age of ages) {
    await newEvent(sql, age);
    await untilOlderHaveEnded();
  }
  return readAges();
}

async function untilOlderHaveEnded(): Promise<void> {
  const deadline = Date.now() + 45_000;
  for (;;) {
    const [row] = await sql<{ isOver: boolean }[]>`
      select pg_snapshot_xmin(pg_current_snapshot()) > max(written_by) as is_over from events where user_id = ${merchant.userId}`;
    if (row?.isOver) return;
    if (Date.now() > deadline) throw new Error("an older transaction of the server did not end within 45 s");
    await Bun.sleep(20);
  }
}

async function newEvent(tx: Tx, age: string): Promise<void> {
  await tx`
    insert into events (user_id, type, subject_id, data, created_at)
    values (${merchant.userId}, 'wallet.created', ${age}, '{}', now() - ${age}::interval)`;
}

async function readAges(): Promise<string[]> {
  const rows = await sql<{ subjectId: string }[]>`
    select subject_id from events where user_id = ${merchant.userId} order by id`;
  return rows.map((row) => row.subjectId);
}

/** What a reader gets next; events become readable when no older transaction of the server runs, also another database's. */
async function readNext(after: EventPosition | undefined): Promise<string[]> {
  const deadline = Date.now() + 45_000;
  for (;;) {
    const page = await listEvents(sql, merchant.userId, { after, limit: 10 });
    if ((page?.events.length ?? 0) > 0 || Date.now() > deadline)
      return page?.events.map((event) => event.subjectId) ?? [];
    await Bun.sleep(50);
  }
}

test("events older than the limit are deleted, those just within it are kept", async () => {
  await newEvents(["92 days", "91 days", "90 days 1 minute", "89 days 23 hours", "1 day"]);
  await deleteOldEvents(sql, { keptDays: 90, limit: LIMIT });
  expect(await readAges()).toEqual(["90 days 1 minute", "89 days 23 hours", "1 day"]);
});

test("a user's newest old event is kept: the cursor of a reader who has read everything stays valid", async () => {
  await newEvents(["95 days", "91 days"]);
  const read = await listEvents(sql, merchant.userId, { limit: 10 });
  await deleteOldEvents(sql, { keptDays: 90, limit: LIMIT });
  expect(await readAges()).toEqual(["91 days"]);
  await newEvent(sql, "1 minute");
  expect(await readNext(read?.end)).toEqual(["1 minute"]);
});

test("an event is kept while none that is old as well began after its transaction had ended", async () => {
  const all = ["95 days", "94 days", "93 days"];
  await newEvents(all);
  const { userId } = merchant;
  await sql`
    update events set ended_before = (select min(written_by) from events where user_id = ${userId}) where user_id = ${userId}`;
  await deleteOldEvents(sql, { keptDays: 90, limit: LIMIT });
  expect(await readAges()).toEqual(all);
});

test("events of one transaction with a user's newest old one are kept: its cursor's seal covers them", async () => {
  await sql.begin(async (tx) => {
    await newEvent(tx, "92 days");
    await newEvent(tx, "91 days");
  });
  await untilOlderHaveEnded();
  const read = await listEvents(sql, merchant.userId, { limit: 10 });
  await deleteOldEvents(sql, { keptDays: 90, limit: LIMIT });
  expect(await readAges()).toEqual(["92 days", "91 days"]);
  expect(await listEvents(sql, merchant.userId, { after: read?.end, limit: 10 })).toMatchObject({
    events: [],
  });
});

test("the many old events of one transaction are deleted together when a later one follows them", async () => {
  await sql`
    insert into events (user_id, type, subject_id, data, created_at)
    select ${merchant.userId}, 'wallet.created', '95 days', '{}', now() - interval '95 days'
    from generate_series(1, 250)`;
  await untilOlderHaveEnded();
  await newEvent(sql, "91 days");
  await deleteOldEvents(sql, { keptDays: 90, limit: LIMIT });
  expect(await readAges()).toEqual(["91 days"]);
});

test("an event whose webhook is not delivered yet is kept; it is deleted when the delivery has ended", async () => {
  const id = `whe_${randomBytes(8).toString("hex")}`;
  await sql`
    insert into webhook_endpoints (id, user_id, url, sealed_secret)
    values (${id}, ${merchant.userId}, 'https://example.test', ${randomBytes(8)})`;
  await newEvents(["92 days", "91 days"]);
  await deleteOldEvents(sql, { keptDays: 90, limit: LIMIT });
  expect(await readAges()).toEqual(["92 days", "91 days"]);
  // what the later one still waits for does not concern the older
  await sql`
    update webhook_deliveries set state = 'DELIVERED'
    where endpoint_id = ${id} and event_id = (select min(id) from events where user_id = ${merchant.userId})`;
  await deleteOldEvents(sql, { keptDays: 90, limit: LIMIT });
  expect(await readAges()).toEqual(["91 days"]);
});

test("an event whose webhook waits for a disabled endpoint is deleted, with its delivery", async () => {
  const id = `whe_${randomBytes(8).toString("hex")}`;
  await sql`
    insert into webhook_endpoints (id, user_id, url, sealed_secret)
    values (${id}, ${merchant.userId}, 'https://example.test', ${randomBytes(8)})`;
  await newEvents(["92 days", "91 days"]);
  await sql`update webhook_endpoints set enabled = false where id = ${id}`;
  await deleteOldEvents(sql, { keptDays: 90, limit: LIMIT });
  expect(await readAges()).toEqual(["91 days"]);
  expect(await sql`select from webhook_deliveries where endpoint_id = ${id}`).toHaveLength(1);
});

test("a step deletes at most as many events as it may", async () => {
  await newEvents(["95 days", "94 days", "93 days", "92 days"]);
  expect(await deleteOldEvents(sql, { keptDays: 90, limit: 2 })).toBe(2);
  expect((await readAges()).length).toBe(2);
});

async function newRelay(state: string, age: string, blockNumber: bigint): Promise<{ txHash: `0x${string}` }> {
  const relayer = randomAddress();
  const txHash = randomHash();
  await sql`insert into relayers (network, address, next_nonce) values (${NETWORK}, ${relayer}, 1)`;
  const id = await sql.begin((tx) =>
    insertRelay(tx, {
      ...{ network: NETWORK, relayer, nonce: 0n, kind: "NOOP", callTo: relayer, gasLimit: 21_000n },
      callData: "0xabcdef",
      attempt: { txHash, raw: "0x0102abcdef03", maxFeePerGas: 1n, maxPriorityFeePerGas: 1n },
    }),
  );
  expect(await readCallData(sql, id)).toBe("0xabcdef");
  await sql`
    update relays set state = ${state}, mined_at = now() - ${age}::interval, block_number = ${blockNumber} where id = ${id}`;
  await sql`update relay_attempts set created_at = now() - ${age}::interval where relay_id = ${id}`;
  return { txHash };
}

test("signed bytes are deleted an hour after a relay is confirmed and final; the attempt is kept", async () => {
  await sql`
    insert into cursors (network, number, hash, head_number, finalized_number) values (${NETWORK}, 200, '0x', 200, 100)`;
  const over = await newRelay("CONFIRMED", "1 hour 1 minute", 100n);
  const kept = [
    await newRelay("CONFIRMED", "59 minutes", 100n),
    await newRelay("CONFIRMED", "8 days", 101n),
    await newRelay("MINED", "8 days", 100n),
    await newRelay("BROADCAST", "8 days", 100n),
    // sent long ago, mined now
    await newRelay("CONFIRMED", "8 days", 100n),
  ];
  await sql`
    update relays
    set mined_at = now()
    where id = (select relay_id from relay_attempts where tx_hash = ${kept.at(-1)?.txHash ?? ""})`;
  expect(await dropSignedBytes(sql, LIMIT)).toBe(1);
  await expect(readRaw(sql, over.txHash)).rejects.toThrow(
    `no attempt with the hash ${over.txHash} has its bytes`,
  );
  for (const { txHash } of kept) expect(await readRaw(sql, txHash)).toBe("0x0102abcdef03");
  expect(await sql`select 1 from relay_attempts where tx_hash = ${over.txHash}`).toHaveLength(1);
});

test("error: call data that is missing from the first attempt's bytes is an error", async () => {
  const relayer = randomAddress();
  await sql`insert into relayers (network, address, next_nonce) values (${NETWORK}, ${relayer}, 1)`;
  const id = await sql.begin((tx) =>
    insertRelay(tx, {
      ...{ network: NETWORK, relayer, nonce: 0n, kind: "NOOP", callTo: relayer, gasLimit: 21_000n },
      callData: "0xabcdef",
      attempt: { txHash: randomHash(), raw: "0x00", maxFeePerGas: 1n, maxPriorityFeePerGas: 1n },
    }),
  );
  await expect(readCallData(sql, id)).rejects.toThrow(`the bytes of relay ${id} contain no call data`);
});

test("claims that decided nothing are deleted after ninety days; matched and open ones are kept", async () => {
  const linkId = await seedLink(sql, merchant);
  for (const [id, state, age] of [
    ["over1", "EXPIRED", "90 days 1 minute"],
    ["over2", "REJECTED", "91 days"],
    ["over3", "HINT", "91 days"],
    ["kept1", "EXPIRED", "89 days 23 hours"],
    ["kept2", "MATCHED", "91 days"],
    ["kept3", "OPEN", "91 days"],
    ["kept4", "DISPUTED", "91 days"],
  ] as const)
    await sql`
      insert into claims (id, link_id, network, tx_hash, client_address, state, lease_until, updated_at)
      values (
        ${id}, ${linkId}, ${NETWORK}, ${randomHash()}, ${randomAddress()}, ${state}, now(), now() - ${age}::interval
      )`;
  expect(await deleteLeftovers(sql, "claims", LIMIT)).toBe(3);
  const rows = await sql<{ id: string }[]>`select id from claims where link_id = ${linkId} order by id`;
  expect(rows.map(({ id }) => id)).toEqual(["kept1", "kept2", "kept3", "kept4"]);
});

test("the security trail is deleted after two years, and only by this step", async () => {
  for (const [type, age] of [
    ["over", "730 days 1 minute"],
    ["kept", "729 days 23 hours"],
  ] as const)
    await sql`
      insert into security_events (user_id, type, created_at)
      values (${merchant.userId}, ${type}, now() - ${age}::interval)`;
  const remove = () => sql`delete from security_events where user_id = ${merchant.userId}`.execute();
  await expect(remove()).rejects.toThrow("append-only");
  expect(await sql.begin((tx) => deleteOldSecurityEvents(tx, LIMIT))).toBe(1);
  const rows = await sql<{ type: string }[]>`
    select type from security_events where user_id = ${merchant.userId}`;
  expect(rows.map(({ type }) => type)).toEqual(["kept"]);
  await expect(remove()).rejects.toThrow("append-only");
});

test("an export is kept for seven days", async () => {
  const filter = { types: [], statuses: [], networks: [], currencies: [] };
  const made = await insertExport(sql, {
    ...{ id: newExportId(), userId: merchant.userId, format: "csv", requestId: null },
    request: { filter, profile: "standard", timeZone: "UTC" },
  });
  expect(made.expiresAt.getTime() - made.createdAt.getTime()).toBe(7 * 86_400_000);
});

/** An account that was registered so long ago, without a code that still counts. */
async function seedRegistered(age: string, status = "REGISTERED"): Promise<string> {
  const id = await seedUser(sql);
  await sql`update users set status = ${status}, created_at = now() - ${age}::interval where id = ${id}`;
  return id;
}

async function whoRemain(ids: readonly string[]): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`select id from users where id = any(${[...ids]}::text[])`;
  return ids.filter((id) => rows.some((row) => row.id === id));
}

test("an account whose address was never verified is deleted after 30 days, with its security trail", async () => {
  const old = await seedRegistered("30 days 1 minute");
  await recordSecurityEvent(sql, {
    userId: old,
    type: "email_verified",
    requestId: "req_1",
    clientAddress: "::1",
  });
  const kept = [
    await seedRegistered("29 days 23 hours"),
    await seedRegistered("400 days", "WALLET_SETUP_PENDING"),
    await seedRegistered("400 days", "ACTIVE"),
  ];
  await deleteUnverifiedUsers(sql, LIMIT);
  expect(await whoRemain([old, ...kept])).toEqual(kept);
  expect(await sql`select from security_events where user_id = ${old}`).toHaveLength(0);
});

test("no more unverified accounts are deleted than asked for", async () => {
  const two = [await seedRegistered("40 days"), await seedRegistered("50 days")];
  expect(await deleteUnverifiedUsers(sql, 1)).toBe(1);
  expect(await whoRemain(two)).toHaveLength(1);
});

test("an unverified account is kept while it has a code or a verification holds its lock, and with all it owns", async () => {
  const names = ["code", "wallet", "passkey", "identity", "member", "merchant"] as const;
  const [code, wallet, passkey, identity, member, shop] = await Promise.all(
    names.map(() => seedRegistered("60 days")),
  );
  await sql`
    insert into otps (id, user_id, code_hmac, expires_at)
    values (${`otp_${code}`}, ${code as string}, ${randomBytes(32)}, now() - interval '1 day')`;
  // its passkey is another's, as no schema forbids
  const foreign = await seedPasskey(sql, await seedUser(sql));
  await seedWallet(sql, [{ ...foreign, userId: wallet as string }]);
  await seedPasskey(sql, passkey as string);
  await sql`
    insert into identities (issuer, subject, user_id) values ('https://issuer.test', ${identity as string}, ${identity as string})`;
  await sql`
    insert into members (merchant_id, user_id, role, invited_by)
    values
      (${merchant.userId}, ${member as string}, 'viewer', ${merchant.userId}),
      (${shop as string}, ${await seedUser(sql)}, 'viewer', ${shop as string})`;
  const verifying = await seedRegistered("60 days");
  const all = [code, wallet, passkey, identity, member, shop, verifying].map(String);
  await sql.begin(async (tx) => {
    await lockUser(tx, verifying);
    await deleteUnverifiedUsers(sql, LIMIT);
    await markVerified(tx, verifying);
  });
  await deleteUnverifiedUsers(sql, LIMIT);
  expect(await whoRemain(all)).toEqual(all);
});
