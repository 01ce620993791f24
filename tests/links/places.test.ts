/** The places of a link with a maximum of payments: who keeps one, and who gives it to another payer. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newLinkId, newPaymentId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { expireLinks } from "../../db/links/expire-links.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { findUsedUp, isUsedUp as isFull } from "../../db/links/max-uses.ts";
import { findNextPlaceOf } from "../../db/links/places.ts";
import { cancelUses, openUse } from "../../db/links/uses.ts";
import { insertPayments } from "../../db/payments/accept-payments.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { randomHash } from "../support/ledger-lab.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { countRowsRead } from "../support/rows-read.ts";
import { randomAddress, type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

const AMOUNT = 1_000_000n;
const STRANGER = "198.51.100.66";
let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;
let addresses = 0;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

const newAddress = () => `203.0.113.${++addresses}`;

async function seedCounted(maxPayments: number): Promise<string> {
  const [id = ""] = await seedLinks(sql, merchant, { isReusable: true, amountUnits: AMOUNT });
  await sql`update payment_links set max_payments = ${maxPayments} where id = ${id}`;
  return id;
}

async function tryOpen(parentId: string, opener: string, replaces?: string) {
  const id = newLinkId();
  return sql.begin((tx) =>
    openUse(tx, { parentId, id, tag: linkTag(id), amountUnits: undefined, opener, replaces }),
  );
}

/** The id of the use, or "" when no place was left. */
async function open(parentId: string, opener: string, replaces?: string): Promise<string> {
  const opened = await tryOpen(parentId, opener, replaces);
  return opened.ok ? opened.link.id : "";
}

const statusOf = async (id: string) =>
  (await sql`select status from payment_links where id = ${id}`)[0]?.status;
const openedMinutesAgo = (id: string, minutes: number) =>
  sql`update payment_links set created_at = now() - make_interval(mins => ${minutes}) where id = ${id}`;
const holdByClaim = async (id: string) => {
  await sql`update payment_links set status = 'PENDING' where id = ${id}`;
  await sql`
    insert into claims (id, link_id, network, tx_hash, client_address, lease_until)
    values (${`clm_${id}`}, ${id}, 'base-sepolia', ${randomHash()}, ${`0x${"11".repeat(20)}`}, now() + interval '90 seconds')`;
};
/** As `pay` accepts a payment: whether it was. */
async function acceptPayment(tx: Tx, linkId: string): Promise<boolean> {
  await lockLinks(tx, [linkId]);
  const payment = {
    ...({ id: newPaymentId(), linkId, network: "base-sepolia", payerKind: "EOA" } as const),
    ...{ token: NETWORKS["base-sepolia"].usdc.address, payer: randomAddress(), recipient: merchant.address },
    ...{ amountUnits: AMOUNT, validAfter: 0n, validBefore: 9_999_999_999n, nonce: randomHash() },
    ...{ signature: "0x" as Hex, idempotencyKey: null, requestId: null },
  };
  return (await insertPayments(tx, [payment])).size === 1;
}
/** The payment of a use fails while nobody knows whether its authorization was executed. */
const failUnknown = async (use: string) => {
  expect(await sql.begin((tx) => acceptPayment(tx, use))).toBe(true);
  await sql`
    update payments set state = 'FAILED', reason = 'RELAYER_UNAVAILABLE', doubt_since = now(), doubt_until = now() + interval '1 hour'
    where link_id = ${use}`;
  await sql`update payment_links set status = 'ACTIVE', updated_at = now() where id = ${use}`;
};
const waitMsOf = async (parentId: string) =>
  ((await findNextPlaceOf(sql, parentId))?.getTime() ?? 0) - Date.now();
const isUsedUp = async (id: string) => {
  const link = { id, status: "ACTIVE", isReusable: true, maxPayments: 1 } as const;
  return (await findUsedUp(sql, [link])).get(id);
};

describe("a stranger who opens payments in a loop", () => {
  test.each([1, 3, 20])("cannot keep others out of a link of %p payments", async (maxPayments) => {
    const parentId = await seedCounted(maxPayments);
    for (let times = 0; times < maxPayments + 2; times++) await open(parentId, STRANGER);
    // with a single place the first one is waited for
    if (maxPayments === 1) {
      expect(await open(parentId, newAddress())).toBe("");
      const [first] = await sql`select id from payment_links where parent_id = ${parentId}`;
      await openedMinutesAgo(first?.id, 16);
      await open(parentId, STRANGER);
    }
    expect(await isUsedUp(parentId)).toBe(false);
    const payers = Array.from({ length: Math.max(1, maxPayments - 1) }, newAddress);
    const uses = [];
    for (const payer of payers) uses.push(await open(parentId, payer));
    expect(uses.filter((id) => id === "")).toEqual([]);
    for (let times = 0; times < 5; times++) expect(await open(parentId, STRANGER)).toBe("");
    expect(await Promise.all(uses.map(statusOf))).toEqual(uses.map(() => "ACTIVE"));
    expect(await isUsedUp(parentId)).toBe(true);
    const [row] = await sql<{ open: number }[]>`
      select count(*)::int as open from payment_links where parent_id = ${parentId} and status = 'ACTIVE' and expires_at > now()`;
    expect(row?.open).toBe(maxPayments);
  });

  test("keeps nobody out by claims of transactions that nobody knows", async () => {
    const parentId = await seedCounted(2);
    const held = [await open(parentId, STRANGER), await open(parentId, STRANGER)];
    for (const id of held) await holdByClaim(id);
    expect(await isUsedUp(parentId)).toBe(false);
    expect(await open(parentId, newAddress())).not.toBe("");
    expect(await Promise.all(held.map(statusOf))).toEqual(["PENDING", "EXPIRED"]);
    const [claim] = await sql`select state, reason from claims where link_id = ${held[1] ?? ""}`;
    expect(claim).toEqual({ state: "EXPIRED", reason: "place_given" });
  });
});

describe("a payer's only place", () => {
  test("is kept for 15 minutes, and given to whoever wants it afterwards", async () => {
    const parentId = await seedCounted(1);
    const use = await open(parentId, newAddress());
    await openedMinutesAgo(use, 14);
    expect([await open(parentId, newAddress()), await isUsedUp(parentId)]).toEqual(["", true]);
    await openedMinutesAgo(use, 15);
    expect(await isUsedUp(parentId)).toBe(false);
    expect(await statusOf(use)).toBe("ACTIVE");
    expect(await open(parentId, newAddress())).not.toBe("");
    expect(await statusOf(use)).toBe("EXPIRED");
    const events = await sql`select type from events where subject_id = ${use}`;
    expect(events.map(({ type }) => type)).toEqual(["payment_link.expired"]);
  });

  test("is kept while nobody else wants it, until it expires", async () => {
    const parentId = await seedCounted(2);
    const use = await open(parentId, newAddress());
    await openedMinutesAgo(use, 50);
    expect(await open(parentId, newAddress())).not.toBe("");
    expect(await statusOf(use)).toBe("ACTIVE");
  });

  test.each(["is 30 minutes old", "expires"])(
    "is kept while a claim that it made is looked for, until it %s",
    async (end) => {
      const parentId = await seedCounted(1);
      const use = await open(parentId, newAddress());
      await openedMinutesAgo(use, 29);
      await holdByClaim(use);
      expect([await open(parentId, newAddress()), await isUsedUp(parentId)]).toEqual(["", true]);
      if (end === "expires") await sql`update payment_links set expires_at = now() where id = ${use}`;
      else await openedMinutesAgo(use, 30);
      expect(await isUsedUp(parentId)).toBe(false);
      expect(await open(parentId, newAddress())).not.toBe("");
      expect(await statusOf(use)).toBe("EXPIRED");
    },
  );

  test.each(["PAID", "PENDING"])("that is %s is never given away", async (status) => {
    const parentId = await seedCounted(1);
    const use = await open(parentId, STRANGER);
    expect(await sql.begin((tx) => acceptPayment(tx, use))).toBe(true);
    await sql`
      update payment_links
      set
        status = ${status}, paid_at = case when ${status} = 'PAID' then now() end, place_rank = 9,
        created_at = now() - interval '2 days', expires_at = now() - interval '1 day'
      where id = ${use}`;
    expect([await open(parentId, newAddress()), await isUsedUp(parentId)]).toEqual(["", true]);
    expect(await statusOf(use)).toBe(status);
  });

  test("is kept while the outcome of one of its payments is unknown", async () => {
    const parentId = await seedCounted(1);
    const use = await open(parentId, STRANGER);
    await failUnknown(use);
    await openedMinutesAgo(use, 50);
    expect(await waitMsOf(parentId)).toBeGreaterThan(30_000);
    await sql`update payment_links set expires_at = now() where id = ${use}`;
    expect([await open(parentId, newAddress()), await isUsedUp(parentId)]).toEqual(["", true]);
    await sql`update payments set doubt_until = now() where link_id = ${use}`;
    expect(await open(parentId, newAddress())).not.toBe("");
  });

  test("is kept while such an outcome is unknown, though its payer's address has begun more and it rests on a claim", async () => {
    const parentId = await seedCounted(1);
    await open(parentId, STRANGER);
    await sql`update payment_links set status = 'EXPIRED', expires_at = now() where parent_id = ${parentId}`;
    const use = await open(parentId, STRANGER);
    await failUnknown(use);
    await holdByClaim(use);
    expect([await open(parentId, newAddress()), await isUsedUp(parentId)]).toEqual(["", true]);
    expect(await statusOf(use)).toBe("PENDING");
    await sql`update payments set doubt_until = now() where link_id = ${use}`;
    expect(await open(parentId, newAddress())).not.toBe("");
  });

  test("is kept while such an outcome is unknown, though it has expired", async () => {
    const parentId = await seedCounted(1);
    const use = await open(parentId, newAddress());
    await failUnknown(use);
    await sql`update payment_links set expires_at = now() - interval '1 second' where id = ${use}`;
    expect((await expireLinks(sql, 100)).map(({ id }) => id)).toContain(use);
    expect([await open(parentId, newAddress()), await isUsedUp(parentId)]).toEqual(["", true]);
    expect(await waitMsOf(parentId)).toBeGreaterThan(30_000);
    expect(await statusOf(use)).toBe("EXPIRED");
    await sql`update payments set doubt_until = now() where link_id = ${use}`;
    expect(await isUsedUp(parentId)).toBe(false);
    expect(await open(parentId, newAddress())).not.toBe("");
    expect(await statusOf(use)).toBe("EXPIRED");
  });

  test("is replaced by the same browser's next one, but not while it is being paid", async () => {
    const parentId = await seedCounted(1);
    const [address, first] = [newAddress(), newLinkId()];
    await sql.begin((tx) =>
      openUse(tx, { parentId, id: first, tag: linkTag(first), amountUnits: undefined, opener: address }),
    );
    expect(await open(parentId, address)).toBe("");
    const second = await open(parentId, address, first);
    expect([await statusOf(first), await statusOf(second)]).toEqual(["EXPIRED", "ACTIVE"]);
    expect(await sql.begin((tx) => acceptPayment(tx, second))).toBe(true);
    expect(await open(parentId, address, second)).toBe("");
  });
});

test("payments of uses that ended more than an hour ago are not looked for", async () => {
  const parentId = await seedCounted(5);
  for (let times = 0; times < 3; times++) await failUnknown(await open(parentId, newAddress()));
  await sql`update payments set doubt_until = now() where doubt_until is not null`;
  const end = (minutes: number) => sql`
    update payment_links set status = 'EXPIRED', updated_at = now() - make_interval(mins => ${minutes}) where parent_id = ${parentId}`;
  const read = () =>
    countRowsRead(
      sql,
      "payments",
      (tx) => tx`select from payment_links link where id = ${parentId} and ${isFull(tx)}`,
    );
  await end(59);
  expect(await read()).toBeGreaterThanOrEqual(3);
  await end(61);
  expect(await read()).toBe(0);
});

describe("when a place may become free", () => {
  test("is said by the oldest place that is not paid, and not said once all are paid", async () => {
    const parentId = await seedCounted(2);
    const uses = [await open(parentId, newAddress()), await open(parentId, newAddress())];
    await openedMinutesAgo(uses[0] ?? "", 5);
    const refused = await tryOpen(parentId, newAddress());
    const [row] = await sql<{ at: Date }[]>`
      select created_at + interval '15 minutes' as at from payment_links where id = ${uses[0] ?? ""}`;
    expect(refused).toMatchObject({ ok: false, reason: "LINK_ALREADY_PAID", nextPlaceAt: row?.at ?? null });
    expect(await findNextPlaceOf(sql, parentId)).toEqual(row?.at ?? null);
    await sql`update payment_links set status = 'PAID', paid_at = now() where parent_id = ${parentId}`;
    expect(await tryOpen(parentId, newAddress())).toMatchObject({ nextPlaceAt: null });
    expect(await findNextPlaceOf(sql, parentId)).toBeNull();
  });
});

describe("no more payments are accepted than the link allows", () => {
  /** Begins a transaction that runs `first`, and stays open until it is ended. */
  async function begin<Result>(first: (tx: Tx) => Promise<Result>) {
    const held = Promise.withResolvers<void>();
    const done = Promise.withResolvers<Result>();
    const ended = sql.begin(async (tx) => {
      done.resolve(await first(tx));
      await held.promise;
    });
    const result = await done.promise;
    return {
      result,
      async commit() {
        held.resolve();
        await ended;
      },
    };
  }

  test("when a payment is being accepted while its use gives its place", async () => {
    const parentId = await seedCounted(1);
    const use = await open(parentId, STRANGER);
    await openedMinutesAgo(use, 20);
    const accepting = await begin((tx) => acceptPayment(tx, use));
    expect(accepting.result).toBe(true);
    expect(await open(parentId, newAddress())).toBe("");
    await accepting.commit();
    expect(await statusOf(use)).toBe("PENDING");
    expect(await open(parentId, newAddress())).toBe("");
  });

  test("when a payment is being accepted whose transaction began before its use expired", async () => {
    const parentId = await seedCounted(1);
    const use = await open(parentId, newAddress());
    const accepting = await begin(async (tx) => {
      await tx`select now()`;
      await sql`update payment_links set expires_at = now() where id = ${use}`;
      return acceptPayment(tx, use);
    });
    expect(accepting.result).toBe(true);
    expect(await open(parentId, newAddress())).toBe("");
    await accepting.commit();
    expect(await open(parentId, newAddress())).toBe("");
  });

  test("when a payment of a use comes while another payer takes its place", async () => {
    const parentId = await seedCounted(1);
    const use = await open(parentId, STRANGER);
    await openedMinutesAgo(use, 20);
    const id = newLinkId();
    const [begun, waiting] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    // its clock is that of its beginning, before the place is taken
    const accepting = sql.begin(async (tx) => {
      await tx`select now()`;
      begun.resolve();
      await waiting.promise;
      return acceptPayment(tx, use);
    });
    await begun.promise;
    const taking = await begin((tx) =>
      openUse(tx, { parentId, id, tag: linkTag(id), amountUnits: undefined, opener: newAddress() }),
    );
    expect(taking.result.ok).toBe(true);
    waiting.resolve();
    await untilBlocked(sql, accepting);
    await taking.commit();
    expect(await accepting).toBe(false);
    expect(await sql.begin((tx) => acceptPayment(tx, id))).toBe(true);
  });

  test("when a payment's outcome becomes unknown while two uses give their places: neither does", async () => {
    const parentId = await seedCounted(3);
    for (let times = 0; times < 3; times++) await open(parentId, STRANGER);
    const uses = await sql<{ id: string }[]>`
      select id from payment_links where parent_id = ${parentId} order by place_rank desc limit 2`;
    const [first, second] = uses.map(({ id }) => id) as [string, string];
    await failUnknown(first);
    await sql`update payments set doubt_until = now() where link_id = ${first}`;
    // a transfer came for an expired use, say
    await sql`update payment_links set max_payments = 2 where id = ${parentId}`;
    const id = newLinkId();
    const given = { parentId, id, tag: linkTag(id), amountUnits: undefined };
    const opened = await sql.begin((tx) => {
      const interrupted = new Proxy(tx, {
        apply(target, self, args: [TemplateStringsArray, ...unknown[]]) {
          const query = Reflect.apply(target, self, args);
          if (!args[0].join?.("").includes("skip locked")) return query;
          return query.then(async (locked: unknown) => {
            await sql`update payments set doubt_until = now() + interval '1 hour' where link_id = ${first}`;
            return locked;
          });
        },
      });
      return openUse(interrupted, { ...given, opener: newAddress() });
    });
    expect(opened).toMatchObject({ ok: false, reason: "LINK_ALREADY_PAID" });
    expect(await Promise.all([first, second].map(statusOf))).toEqual(["ACTIVE", "ACTIVE"]);
  });

  test("when two payers want the same place", async () => {
    const parentId = await seedCounted(3);
    for (let times = 0; times < 3; times++) await open(parentId, STRANGER);
    const uses = await Promise.all(Array.from({ length: 4 }, () => open(parentId, newAddress())));
    // the stranger's first place is theirs
    expect(uses.filter((id) => id !== "")).toHaveLength(2);
    const [row] = await sql<{ open: number }[]>`
      select count(*)::int as open from payment_links where parent_id = ${parentId} and status = 'ACTIVE'`;
    expect(row?.open).toBe(3);
  });
});

test("a cancelled link ends the uses that nothing but claims holds, and none that is being paid", async () => {
  const parentId = await seedCounted(4);
  const [idle, claimed, paying, over] = [
    await open(parentId, newAddress()),
    await open(parentId, newAddress()),
    await open(parentId, newAddress()),
    await open(parentId, newAddress()),
  ];
  await holdByClaim(claimed);
  expect(await sql.begin((tx) => acceptPayment(tx, paying))).toBe(true);
  await sql`update payment_links set expires_at = now() where id = ${over}`;
  const ended = await sql.begin((tx) => cancelUses(tx, parentId));
  expect(ended.map(({ id }) => id).sort()).toEqual([idle, claimed].sort());
  expect(await Promise.all([idle, claimed, paying, over].map(statusOf))).toEqual([
    "CANCELLED",
    "CANCELLED",
    "PENDING",
    "ACTIVE",
  ]);
});
