/** A place of a link with a maximum of payments, while another transaction decides about the use that gives it: it is taken at the next try. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openUseUncontended } from "../../api/links/open-use.ts";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { expireLinks } from "../../db/links/expire-links.ts";
import { openUse } from "../../db/links/uses.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seedLinks, seedMerchant } from "../support/seed.ts";

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 3 });
});
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

let addresses = 0;
function newUse(parentId: string) {
  const id = newLinkId();
  const opener = `203.0.113.${++addresses}`;
  return { parentId, id, tag: linkTag(id), amountUnits: undefined, opener };
}

/** A link of two payments, both of whose uses are open: one of them past its expiry. */
async function seedFull(): Promise<{ parentId: string; over: string }> {
  const [parentId = ""] = await seedLinks(sql, await seedMerchant(sql), {
    isReusable: true,
    amountUnits: 1_000_000n,
  });
  await sql`update payment_links set max_payments = 2 where id = ${parentId}`;
  const [over, other] = [newUse(parentId), newUse(parentId)];
  for (const use of [over, other])
    expect(await sql.begin((tx) => openUse(tx, use))).toMatchObject({ ok: true });
  await sql`update payment_links set expires_at = now() where id = ${over.id}`;
  return { parentId, over: over.id };
}

/** Runs \`work\` while the worker's statement has found the expired use and its transaction has not ended. */
async function whileExpiring(use: string, work: (end: () => Promise<unknown>) => Promise<void>) {
  const [found, held] = [Promise.withResolvers<string[]>(), Promise.withResolvers<void>()];
  const expiring = sql.begin(async (tx) => {
    found.resolve((await expireLinks(tx, 10)).map(({ id }) => id));
    await held.promise;
  });
  const end = () => {
    held.resolve();
    return expiring;
  };
  try {
    expect(await found.promise).toContain(use);
    await work(end);
  } finally {
    await end();
  }
}

test("a refusal because a use is just being expired says that a place may be free in a second, not when the other one's time ends", async () => {
  const { parentId, over } = await seedFull();
  await whileExpiring(over, async () => {
    const refused = await sql.begin((tx) => openUse(tx, newUse(parentId)));
    expect(refused).toMatchObject({ ok: false, reason: "LINK_ALREADY_PAID", isContended: true });
    if (refused.ok || refused.reason !== "LINK_ALREADY_PAID") throw new Error("it was opened");
    const [clock] = await sql<{ inASecond: Date }[]>`select now() + interval '1 second' as in_a_second`;
    expect(refused.nextPlaceAt?.getTime()).toBeLessThanOrEqual(clock?.inASecond.getTime() ?? 0);
  });
});

test("a payer who comes while a use is just being expired takes its place", async () => {
  const { parentId, over } = await seedFull();
  await whileExpiring(over, async (end) => {
    const tries: unknown[] = [];
    // the transaction ends after the first try
    const begin = async (work: (tx: Tx) => Promise<unknown>) => {
      const result = await sql.begin(work);
      tries.push(result);
      await end();
      return result;
    };
    const watched = new Proxy(sql, {
      get: (target, name) => (name === "begin" ? begin : Reflect.get(target, name)),
    });
    expect(await openUseUncontended(watched, newUse(parentId))).toMatchObject({ ok: true });
    expect(tries).toMatchObject([{ ok: false, isContended: true }, { ok: true }]);
  });
});

test("a place that another payer keeps is refused at once", async () => {
  const { parentId, over } = await seedFull();
  await sql`update payment_links set expires_at = now() + interval '1 hour' where id = ${over}`;
  expect(await openUseUncontended(sql, newUse(parentId))).toMatchObject({ ok: false, isContended: false });
});
