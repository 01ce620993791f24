/** Secrets are encrypted again with the newest key, however many pages of them there are; what is current, unreadable or changed meanwhile stays. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { type KeyList, type SealPlace, seal, tryUnseal } from "../../core/domain/seal-secrets.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { resealReturnSecrets, resealWebhookSecrets } from "../../worker/webhooks/reseal-secrets.ts";
import { seedUser } from "../support/passkey-rows.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";
import { untilBlocked } from "../support/until-blocked.ts";

setDefaultTimeout(120_000);
const OLD: KeyList = ["the key of yesterday, which has 32 characters"];
const LOST: KeyList = ["a key that is not configured, 32 characters"];
const KEYS: KeyList = ["the key of today, which has 32 characters too", OLD[0]];
const [NEWEST] = KEYS;
/** Rows that are read at once. */
const PAGE = 200;
let db: TestDatabase;
let sql: Sql;
let userId: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 4 });
});
beforeEach(async () => {
  await sql`truncate webhook_endpoints, merchant_pages cascade`;
  userId = await seedUser(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

/** Whether the newest key is the one that opens it. */
const isRenewed = (place: SealPlace, sealed: Uint8Array | null | undefined) =>
  tryUnseal([NEWEST], place, sealed ?? new Uint8Array())?.text === "secret";

describe("webhook secrets", () => {
  const placeOf = (id: string) => ({ purpose: "webhook secret", id }) as const;

  async function endpoints(count: number, keys: KeyList, old?: KeyList): Promise<string[]> {
    const ids = Array.from({ length: count }, () => newWebhookEndpointId());
    const sealed = (of: KeyList) => ids.map((id) => seal(of, placeOf(id), "secret").toString("hex"));
    await sql`
      insert into webhook_endpoints (id, user_id, url, event_types, sealed_secret, sealed_old_secret, old_secret_until)
      select
        id, ${userId}, 'https://example.test', '{}', decode(secret, 'hex'), decode(old, 'hex'),
        case when old is not null then now() + interval '1 day' end
      from unnest(
        ${ids}::text[], ${sealed(keys)}::text[], ${old ? sealed(old) : ids.map(() => null)}::text[]
      ) as made (id, secret, old)`;
    return ids;
  }

  const secretsOf = async (ids: readonly string[]) =>
    sql<{ id: string; sealedSecret: Uint8Array; sealedOldSecret: Uint8Array | null }[]>`
      select id, sealed_secret, sealed_old_secret from webhook_endpoints where id = any(${[...ids]}::text[])`;

  test.each([PAGE, PAGE + 1, 2 * PAGE])("of %d endpoints are all resealed, and once", async (count) => {
    const ids = await endpoints(count, OLD);
    expect(await resealWebhookSecrets(sql, KEYS)).toEqual({ resealed: count, kept: 0, unreadable: [] });
    const rows = await secretsOf(ids);
    expect(rows.filter(({ id, sealedSecret }) => isRenewed(placeOf(id), sealedSecret))).toHaveLength(count);
    expect(await resealWebhookSecrets(sql, KEYS)).toEqual({ resealed: 0, kept: count, unreadable: [] });
  });

  test("are both resealed where an old one still signs, and an unreadable one is named and left", async () => {
    const [both = ""] = await endpoints(1, OLD, OLD);
    const [lost = ""] = await endpoints(1, LOST, KEYS);
    expect(await resealWebhookSecrets(sql, KEYS)).toEqual({ resealed: 2, kept: 1, unreadable: [lost] });
    const [row] = await secretsOf([both]);
    expect(isRenewed(placeOf(both), row?.sealedSecret)).toBe(true);
    expect(isRenewed(placeOf(both), row?.sealedOldSecret)).toBe(true);
    const [left] = await secretsOf([lost]);
    expect(tryUnseal(LOST, placeOf(lost), left?.sealedSecret ?? new Uint8Array())?.text).toBe("secret");
  });

  test("race: one that is replaced meanwhile is not counted, and keeps its new value", async () => {
    const [id = ""] = await endpoints(1, OLD);
    const replaced = seal(KEYS, placeOf(id), "another");
    let running: ReturnType<typeof resealWebhookSecrets> | undefined;
    await sql.begin(async (tx) => {
      await tx`update webhook_endpoints set sealed_secret = ${replaced} where id = ${id}`;
      running = resealWebhookSecrets(sql, KEYS);
      running.catch(() => undefined);
      await untilBlocked(sql, running);
    });
    expect(await running).toEqual({ resealed: 0, kept: 0, unreadable: [] });
    const [row] = await secretsOf([id]);
    expect(Buffer.from(row?.sealedSecret ?? []).equals(replaced)).toBe(true);
  });
});

describe("return secrets", () => {
  const placeOf = (id: string) => ({ purpose: "return secret", id }) as const;

  async function merchants(count: number, keys: KeyList): Promise<string[]> {
    const ids: string[] = [];
    for (let made = 0; made < count; made++) ids.push(await seedUser(sql));
    const sealed = ids.map((id) => seal(keys, placeOf(id), "secret").toString("hex"));
    await sql`
      insert into merchant_pages (user_id, sealed_return_secret)
      select id, decode(secret, 'hex') from unnest(${ids}::text[], ${sealed}::text[]) as made (id, secret)`;
    return ids;
  }

  const secretOf = async (id: string) => {
    const [row] = await sql<{ sealedReturnSecret: Uint8Array }[]>`
      select sealed_return_secret from merchant_pages where user_id = ${id}`;
    return row?.sealedReturnSecret;
  };

  test.each([PAGE, PAGE + 1, 2 * PAGE])("of %d merchants are all resealed, and once", async (count) => {
    const ids = await merchants(count, OLD);
    expect(await resealReturnSecrets(sql, KEYS)).toEqual({ resealed: count, kept: 0, unreadable: [] });
    const renewed = await Promise.all(ids.map(async (id) => isRenewed(placeOf(id), await secretOf(id))));
    expect(renewed.filter(Boolean)).toHaveLength(count);
    expect(await resealReturnSecrets(sql, KEYS)).toEqual({ resealed: 0, kept: count, unreadable: [] });
  });

  test("that no key decrypts are named by their merchant and left", async () => {
    const [lost = ""] = await merchants(1, LOST);
    const before = await secretOf(lost);
    expect(await resealReturnSecrets(sql, KEYS)).toEqual({ resealed: 0, kept: 0, unreadable: [lost] });
    expect(await secretOf(lost)).toEqual(before);
  });

  test("race: one that is replaced meanwhile is not counted, and keeps its new value", async () => {
    const [id = ""] = await merchants(1, OLD);
    const replaced = seal(KEYS, placeOf(id), "another");
    let running: ReturnType<typeof resealReturnSecrets> | undefined;
    await sql.begin(async (tx) => {
      await tx`update merchant_pages set sealed_return_secret = ${replaced} where user_id = ${id}`;
      running = resealReturnSecrets(sql, KEYS);
      running.catch(() => undefined);
      await untilBlocked(sql, running);
    });
    expect(await running).toEqual({ resealed: 0, kept: 0, unreadable: [] });
    expect(Buffer.from((await secretOf(id)) ?? []).equals(replaced)).toBe(true);
  });
});
