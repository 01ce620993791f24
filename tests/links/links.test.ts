import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newPaymentId, newTransactionId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { insertPayments } from "../../db/payments/accept-payments.ts";
import { failPayments } from "../../db/payments/payments.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/seed.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { randomHash } from "./payers.ts";

let world: ApiWorld;
let ann: Merchant;
let bob: Merchant;

beforeAll(async () => {
  world = await startApiWorld();
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
}, 120_000);
afterAll(() => world?.stop());

const LINKS = "/v1/payment-links";

async function makeLink(merchant: Merchant, body: Record<string, unknown> = {}): Promise<string> {
  const answer = await merchant.client.post(LINKS, { amount: 5, description: "Test", ...body });
  expect(answer.status).toBe(201);
  return answer.body.id;
}

async function expireLink(id: string): Promise<void> {
  await world.sql`
    update payment_links
    set created_at = created_at - interval '3 hours', expires_at = now() - interval '1 second'
    where id = ${id}`;
}

describe("reading one link", () => {
  test("returns all fields and updatedAt to its owner", async () => {
    const id = await makeLink(ann);
    for (const query of ["", `?userId=${ann.userId}`]) {
      const { status, body } = await ann.client.get(`${LINKS}/${id}${query}`);
      expect(status).toBe(200);
      expect(body.id).toBe(id);
      expect(body.updatedAt).toBe(body.createdAt);
    }
  });

  test("error: another user's link is 404, as is an unknown or malformed id", async () => {
    const id = await makeLink(ann);
    const ids = [
      id,
      "link_AAAAAAAAAAAAAAAAAAAAAA",
      "link_",
      "nonsense",
      "%00",
      "..%2f..%2fhealth",
      "link_'; drop table users;--",
    ];
    for (const one of ids) {
      const { status, body } = await bob.client.get(`${LINKS}/${one}`);
      expect(status).toBe(404);
      expect(body.error.code).toBe("NOT_FOUND");
    }
  });

  test("error: another user's userId is 403, also with one's own link", async () => {
    const id = await makeLink(ann);
    for (const path of [`${LINKS}/${id}`, LINKS, `${LINKS}/stats`, `${LINKS}/${id}/payments`]) {
      const { status, body } = await ann.client.get(`${path}?userId=${bob.userId}`);
      expect(status).toBe(403);
      expect(body.error.code).toBe("FORBIDDEN");
      expect((await ann.client.get(`${path}?userId=${ann.userId}`)).status).toBe(200);
    }
    const made = await ann.client.post(LINKS, { userId: bob.userId, amount: 1, description: "d" });
    expect(made.status).toBe(403);
  });

  test("error: a repeated userId is refused", async () => {
    const { status } = await ann.client.get(`${LINKS}?userId=${ann.userId}&userId=${bob.userId}`);
    expect([400, 403]).toContain(status);
  });

  test("error: no credentials are 401 on every route", async () => {
    const nobody = openClient(world.baseUrl);
    const id = await makeLink(ann);
    for (const path of [LINKS, `${LINKS}/stats`, `${LINKS}/${id}`])
      expect((await nobody.get(path)).status).toBe(401);
    expect((await nobody.post(LINKS, { amount: 1, description: "d" })).status).toBe(401);
    expect((await nobody.post(`${LINKS}/${id}/cancel`)).status).toBe(401);
  });
});

describe("credentials", () => {
  test("an API key does what its scopes allow", async () => {
    const keyOf = async (scopes: string[]): Promise<{ authorization: string }> => {
      const { body } = await ann.client.post("/v1/api-keys", { name: "test", scopes });
      return { authorization: `Bearer ${body.data.key}` };
    };
    const [reader, writer] = await Promise.all([keyOf(["links:read"]), keyOf(["links:write"])]);
    const nobody = openClient(world.baseUrl);
    const made = await nobody.post(LINKS, { amount: 1, description: "by key" }, writer);
    expect(made.status).toBe(201);
    expect((await nobody.get(`${LINKS}/${made.body.id}`, reader)).status).toBe(200);
    expect((await nobody.get(`${LINKS}/${made.body.id}`, writer)).status).toBe(403);
    expect((await nobody.post(LINKS, { amount: 1, description: "d" }, reader)).status).toBe(403);
  });

  test("a test bearer token replaces the cookie", async () => {
    const { body } = await openClient(world.baseUrl).post("/v1/test/token", { email: ann.email });
    const token = body.accessToken ?? body.token ?? body.data?.accessToken;
    const headers = { authorization: `Bearer ${token}`, "x-test-mode": "true" };
    const made = await openClient(world.baseUrl).post(
      LINKS,
      { amount: 1, description: "by bearer" },
      headers,
    );
    expect(made.status).toBe(201);
  });
});

describe("the list", () => {
  let eve: Merchant;
  let ids: string[];

  beforeAll(async () => {
    eve = await signUp(world.baseUrl);
    ids = [];
    for (let n = 0; n < 7; n++) ids.unshift(await makeLink(eve, { description: `n${n}` }));
    // all at one instant: the id decides
    await world.sql`update payment_links set created_at = '2026-01-01T00:00:00.123456Z' where id = any(${ids.slice(0, 4)})`;
    const rows = await world.sql<{ id: string }[]>`
      select id
      from payment_links
      where user_id = ${eve.userId}
      order by created_at desc, id desc`;
    ids = rows.map((row) => row.id);
  });

  async function walk(client: Client, query: string): Promise<string[]> {
    const seen: string[] = [];
    let cursor: string | null = "";
    for (let page = 0; cursor !== null && page < 20; page++) {
      const answer = await client.get(`${LINKS}?${query}${cursor ? `&cursor=${cursor}` : ""}`);
      expect(answer.status).toBe(200);
      seen.push(...answer.body.links.map((link: { id: string }) => link.id));
      cursor = answer.body.nextCursor;
      expect(answer.body.pagination.hasNextPage).toBe(cursor !== null);
    }
    return seen;
  }

  test("returns every link once, newest first, whatever the page size", async () => {
    for (const limit of [1, 2, 3, 6, 7, 8, 100])
      expect(await walk(eve.client, `limit=${limit}`)).toEqual(ids);
  });

  test("keeps its position while links are added", async () => {
    const first = await eve.client.get(`${LINKS}?limit=3`);
    const added = await makeLink(eve);
    const second = await eve.client.get(`${LINKS}?limit=100&cursor=${first.body.nextCursor}`);
    expect(second.body.links.map((link: { id: string }) => link.id)).toEqual(ids.slice(3));
    await world.sql`delete from payment_links where id = ${added}`;
  });

  test("has no updatedAt, and counts", async () => {
    const { body } = await eve.client.get(`${LINKS}?limit=2`);
    expect(body.links[0]).not.toHaveProperty("updatedAt");
    expect(body).toMatchObject({
      totalCount: 7,
      activeCount: 7,
      pagination: { hasNextPage: true, limit: 2 },
    });
    expect((await eve.client.get(LINKS)).body.pagination).toEqual({ hasNextPage: false, limit: 20 });
  });

  test.each(["0", "101", "-1", "1.5", "abc", "", "1e1", "99999999999999999999"])(
    "error: limit=%s",
    async (limit) => {
      const { status, body } = await eve.client.get(`${LINKS}?limit=${limit}`);
      expect([status, body.error.details.field]).toEqual([400, "limit"]);
    },
  );

  test("error: a cursor that is malformed, edited, or another user's", async () => {
    const { body } = await eve.client.get(`${LINKS}?limit=1`);
    const cursor: string = body.nextCursor;
    const edited = `${cursor.slice(0, -1)}${cursor.endsWith("A") ? "B" : "A"}`;
    for (const bad of ["x", "%00", "AAAA", edited, `${cursor}=`, cursor.slice(1)]) {
      const answer = await eve.client.get(`${LINKS}?cursor=${bad}`);
      expect([answer.status, answer.body.error.details.field]).toEqual([400, "cursor"]);
    }
    expect((await ann.client.get(`${LINKS}?cursor=${cursor}`)).status).toBe(400);
  });

  test("error: an unknown status", async () => {
    for (const status of ["active", "DONE", ""]) {
      const answer = await eve.client.get(`${LINKS}?status=${status}`);
      expect([answer.status, answer.body.error.details.field]).toEqual([400, "status"]);
    }
  });
});

describe("expiry, status filter and statistics", () => {
  test("EXPIRED is shown everywhere without a job having run", async () => {
    const kim = await signUp(world.baseUrl);
    const [kept = "", lapsed = "", moved = "", cancelled = ""] = await Promise.all(
      Array.from({ length: 4 }, () => makeLink(kim)),
    );
    await expireLink(lapsed);
    await expireLink(moved);
    await world.sql`update payment_links set status = 'EXPIRED' where id = ${moved}`;
    expect((await kim.client.post(`${LINKS}/${cancelled}/cancel`)).body.status).toBe("CANCELLED");

    const [stored] = await world.sql`select status from payment_links where id = ${lapsed}`;
    expect(stored?.status).toBe("ACTIVE");
    expect((await kim.client.get(`${LINKS}/${lapsed}`)).body.status).toBe("EXPIRED");
    const data = await openClient(world.baseUrl).get(`/api/v1/public/payment-links/${lapsed}/data`);
    expect(data.body.status).toBe("EXPIRED");

    const listed = async (status: string) => {
      const { body } = await kim.client.get(`${LINKS}?status=${status}`);
      const found: { id: string; status: string }[] = body.links;
      expect(found.every((link) => link.status === status)).toBe(true);
      expect(body.totalCount).toBe(found.length);
      expect(body.activeCount).toBe(1);
      return found.map((link) => link.id).sort();
    };
    expect(await listed("ACTIVE")).toEqual([kept]);
    expect(await listed("EXPIRED")).toEqual([lapsed, moved].sort());
    expect(await listed("CANCELLED")).toEqual([cancelled]);
    expect(await listed("PAID")).toEqual([]);
    expect(await listed("PENDING")).toEqual([]);
    expect((await kim.client.get(`${LINKS}/stats`)).body).toMatchObject({
      totalLinks: 4,
      activeLinks: 1,
      expiredLinks: 2,
      paidLinks: 0,
      cancelledLinks: 1,
    });
  });

  test("lists expired links, marked or not, in one order", async () => {
    const kim = await signUp(world.baseUrl);
    const ids = await Promise.all(Array.from({ length: 6 }, () => makeLink(kim)));
    for (const id of ids) await expireLink(id);
    await world.sql`update payment_links set status = 'EXPIRED' where id = any(${ids.slice(0, 3)})`;
    const rows = await world.sql<{ id: string }[]>`
      select id from payment_links where user_id = ${kim.userId} order by created_at desc, id desc`;
    const first = await kim.client.get(`${LINKS}?status=EXPIRED&limit=4`);
    const second = await kim.client.get(`${LINKS}?status=EXPIRED&limit=4&cursor=${first.body.nextCursor}`);
    const seen = [...first.body.links, ...second.body.links].map((link: { id: string }) => link.id);
    expect(seen).toEqual(rows.map((row) => row.id));
  });

  test("earnings are the exact sum of paid links", async () => {
    const kim = await signUp(world.baseUrl);
    const amounts = [0.000001, 0.1, 0.2, 999_999.999999, 12.34];
    for (const amount of amounts) await makeLink(kim, { amount });
    const unpaid = await makeLink(kim, { amount: 77 });
    await world.sql`
      update payment_links set status = 'PAID', paid_at = now() where user_id = ${kim.userId} and id <> ${unpaid}`;
    await world.sql`update payment_links set refunded_units = 100000 where user_id = ${kim.userId} and amount_units = 12340000`;
    const { body } = await kim.client.get(`${LINKS}/stats`);
    expect(body).toEqual({
      totalLinks: 6,
      activeLinks: 1,
      paidLinks: 5,
      expiredLinks: 0,
      pendingLinks: 0,
      cancelledLinks: 0,
      totalEarnings: 1_000_012.64,
      totalRefunded: 0.1,
      currency: "USDC",
    });
  });

  test("statistics of a user without links are zero", async () => {
    const kim = await signUp(world.baseUrl);
    const { body } = await kim.client.get(`${LINKS}/stats?userId=${kim.userId}`);
    expect(body).toMatchObject({
      totalLinks: 0,
      activeLinks: 0,
      paidLinks: 0,
      expiredLinks: 0,
      totalEarnings: 0,
    });
    expect((await kim.client.get(LINKS)).body).toEqual({
      links: [],
      nextCursor: null,
      totalCount: 0,
      activeCount: 0,
      pagination: { hasNextPage: false, limit: 20 },
    });
  });
});

describe("cancelling", () => {
  test("ACTIVE becomes CANCELLED once, with one event", async () => {
    const id = await makeLink(ann);
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => ann.client.post(`${LINKS}/${id}/cancel`)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409]);
    const events =
      await world.sql`select 1 from events where subject_id = ${id} and type = 'payment_link.cancelled'`;
    expect(events.length).toBe(1);
  });

  test("error: a link that a payment holds is 409 and unchanged", async () => {
    const id = await makeLink(ann);
    const payment = {
      ...({
        id: newPaymentId(),
        transactionId: newTransactionId(),
        linkId: id,
        network: "base-sepolia",
      } as const),
      ...({
        token: NETWORKS["base-sepolia"].usdc.address,
        payer: randomAddress(),
        payerKind: "EOA",
      } as const),
      ...{
        recipient: ann.walletAddress as Hex,
        amountUnits: 1n,
        validAfter: 0n,
        validBefore: 9_999_999_999n,
      },
      ...{ nonce: randomHash(), signature: "0x" as Hex, idempotencyKey: null, requestId: null },
    };
    const accepted = await world.sql.begin((tx) => insertPayments(tx, [payment]));
    expect(accepted.size).toBe(1);
    expect((await ann.client.post(`${LINKS}/${id}/cancel`)).status).toBe(409);
    expect((await ann.client.get(`${LINKS}/${id}`)).body.status).toBe("PENDING");
    await world.sql.begin((tx) => failPayments(tx, [{ id: payment.id, reason: "EXPIRED_TRANSFER" }]));
    expect((await ann.client.post(`${LINKS}/${id}/cancel`)).status).toBe(200);
  });

  test.each(["PAID", "EXPIRED"])("error: a %s link is 409 and unchanged", async (status) => {
    const id = await makeLink(ann);
    await world.sql`
      update payment_links
      set status = ${status}, paid_at = case when ${status} = 'PAID' then now() end
      where id = ${id}`;
    expect((await ann.client.post(`${LINKS}/${id}/cancel`)).status).toBe(409);
    expect((await ann.client.get(`${LINKS}/${id}`)).body.status).toBe(status);
  });

  test("error: a link past its expiry is 409, another user's is 404", async () => {
    const id = await makeLink(ann);
    expect((await bob.client.post(`${LINKS}/${id}/cancel`)).status).toBe(404);
    await expireLink(id);
    expect((await ann.client.post(`${LINKS}/${id}/cancel`)).status).toBe(409);
  });
});
