/** What a merchant notes with a link: limits, who sees it, where it is found again, and the signed way back to the shop. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { NO_ORDER } from "../../core/domain/order-data.ts";
import { signReturnUrl, whyNotAReturnUrl } from "../../core/domain/return-url.ts";
import { insertLink } from "../../db/links/links.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { exportAs } from "../exports/ask.ts";
import { parseCsv } from "../exports/read-files.ts";
import { openClient } from "../support/http-client.ts";
import { seedMerchant } from "../support/seed.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { untilBlocked } from "../support/until-blocked.ts";
import { type PayerSide, startPayerSide, waitFor } from "./payer-side.ts";
import { sendUsdc } from "./payers.ts";

const LINKS = "/v1/payment-links";

let side: PayerSide;
let ann: Merchant;
let bob: Merchant;
beforeAll(async () => {
  side = await startPayerSide();
  ann = side.ann;
  bob = await signUp(side.world.baseUrl);
}, 120_000);
afterAll(() => side?.world.stop());

const create = (fields: Record<string, unknown>, merchant = ann) =>
  merchant.client.post(LINKS, { amount: 1, description: "Order", ...fields });
const publicData = async (id: string) =>
  (await openClient(side.world.baseUrl).get(`/api/v1/public/payment-links/${id}/data`)).body;
const pairs = (count: number, key = "k", value = "v") =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`${key}${n}`, value]));

describe("order data of a link", () => {
  test("reads back from create, get and list, and is null or empty when nothing was given", async () => {
    const order = {
      reference: "ORD-2026/0042 é",
      metadata: { cart: "7", note: "two lines\nare fine" },
      customerEmail: "Carla@Example.COM",
      successUrl: "https://shop.example/thanks?cart=7#top",
      cancelUrl: "http://localhost:8080/cart",
    };
    const { status, body } = await create(order);
    expect(status).toBe(201);
    const expected = { ...order, customerEmail: "carla@example.com" };
    expect(body).toMatchObject(expected);
    expect((await ann.client.get(`${LINKS}/${body.id}`)).body).toMatchObject(expected);
    const listed = await ann.client.get(`${LINKS}?limit=1`);
    expect(listed.body.links[0]).toMatchObject(expected);
    const plain = await create({});
    expect(plain.body).toMatchObject({
      ...{ reference: null, metadata: {}, customerEmail: null, successUrl: null, cancelUrl: null },
    });
  });

  test.each([
    ["reference", "r".repeat(100), "r".repeat(101)],
    ["reference", "😀".repeat(100), "😀".repeat(101)],
    ["reference", "a b", " a"],
    ["reference", "a", ""],
    ["reference", "a", "a\nb"],
    ["reference", "a", "a\u0000"],
    ["metadata", pairs(20), pairs(21)],
    ["metadata", { ["k".repeat(40)]: "v" }, { ["k".repeat(41)]: "v" }],
    ["metadata", { k: "v".repeat(500) }, { k: "v".repeat(501) }],
    ["metadata", { k: "" }, { "": "v" }],
    ["metadata", { k: "1" }, { k: 1 }],
    ["metadata", {}, [["k", "v"]]],
    ["customerEmail", "a@b.example", "a.b.example"],
    ["successUrl", "https://shop.example/", "http://shop.example/"],
    ["successUrl", "http://localhost/", "http://localhost.example/"],
    ["cancelUrl", "http://127.0.0.1:3000/x", "javascript:alert(1)"],
    ["cancelUrl", "https://shop.example/?signed=1", "https://shop.example/?sig=1"],
    ["successUrl", "https://shop.example/?to=a@b", "https://user@shop.example/"],
    [
      "successUrl",
      `https://shop.example/${"x".repeat(2_000 - "https://shop.example/".length)}`,
      `https://shop.example/${"x".repeat(2_001 - "https://shop.example/".length)}`,
    ],
  ])(
    "%s: accepts the case just within, refuses the one just outside with 400 naming it",
    async (field, inside, outside) => {
      const good = await create({ [field]: inside });
      expect([good.status, good.body[field]]).toEqual([201, inside]);
      const bad = await create({ [field]: outside });
      expect(bad.status).toBe(400);
      expect(bad.body.error.details.field).toStartWith(field);
    },
  );

  test("a refused key of metadata is explained in the service's own words", async () => {
    const order = (key: string) => ({ amount: 1, description: "Order", metadata: { [key]: "v" } });
    const { body: long } = await ann.client.post("/v1/payment-links", order("k".repeat(41)));
    expect(long.error.details.issue).toBe("is not a valid key: it must have at most 40 characters");
    const { body: empty } = await ann.client.post("/v1/payment-links", order(""));
    expect(empty.error.details.issue).toBe("is not a valid key: it must not be empty");
  });

  test("error: metadata with the key __proto__, which JavaScript would lose, is refused", async () => {
    for (const key of ["__proto__", "\\u005f_proto__"]) {
      const body = `{"amount": 1, "description": "Order", "metadata": {"${key}": "v", "cart": "7"}}`;
      const answer = await ann.client.post(LINKS, body);
      expect(answer.status).toBe(400);
      expect(answer.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field: "metadata" } });
    }
    const named = await create({ metadata: { constructor: "v", toString: "w" } });
    expect(named.body.metadata).toEqual({ constructor: "v", toString: "w" });
  });

  test("unknown fields are refused by name; currency USDC passes", async () => {
    expect((await create({ currency: "USDC" })).status).toBe(201);
    const { status, body } = await create({ refrence: "typo", amounts: 2 });
    expect(status).toBe(400);
    expect(body.error.message).toContain("refrence, amounts");
  });

  test("public data and the page show the reference, never the customer's address or the metadata", async () => {
    const { body } = await create({
      ...{ reference: "PUB-1", customerEmail: "secret@customer.example", metadata: { margin: "hidden-37" } },
    });
    const data = await publicData(body.id);
    expect(data).toMatchObject({ reference: "PUB-1", successUrl: null, cancelUrl: null, returnUrl: null });
    const page = await (await fetch(`${side.world.baseUrl}/pay/${body.id}`)).text();
    expect(page).toContain("<bdi>PUB-1</bdi>");
    for (const text of [JSON.stringify(data), page]) {
      expect(text).not.toContain("secret@customer.example");
      expect(text).not.toContain("hidden-37");
    }
    expect((await bob.client.get(`${LINKS}/${body.id}`)).status).toBe(404);
  });
});

describe("a reference", () => {
  test("may repeat, unless one of the links asks for it to be unique", async () => {
    expect((await create({ reference: "TWICE" })).status).toBe(201);
    expect((await create({ reference: "TWICE" })).status).toBe(201);
    const late = await create({ reference: "TWICE", uniqueReference: true });
    expect([late.status, late.body.error.details]).toEqual([
      409,
      { field: "reference", issue: "reference_taken" },
    ]);
    expect((await create({ reference: "ONCE", uniqueReference: true })).status).toBe(201);
    expect((await create({ reference: "ONCE" })).status).toBe(409);
    expect((await create({ reference: "ONCE", uniqueReference: true }, bob)).status).toBe(201);
    expect((await create({ uniqueReference: true })).status).toBe(400);
  });

  test("requested by sixteen concurrent requests belongs to one link", async () => {
    const made = await Promise.all(
      Array.from({ length: 16 }, () => create({ reference: "RACE", uniqueReference: true })),
    );
    expect(made.map(({ status }) => status).sort()).toEqual([201, ...Array(15).fill(409)]);
  });

  test("requested concurrently on two networks belongs to one link: the index decides", async () => {
    const { sql } = side.world;
    const merchant = await seedMerchant(sql);
    await sql`
      insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
      select 'wallet_' || gen_random_uuid(), user_id, 'base', address, passkey_id, factory, owners
      from wallets
      where id = ${merchant.walletId}`;
    const insert = (tx: Tx, network: NetworkId) => {
      const id = newLinkId();
      const order = { ...NO_ORDER, reference: "NETWORKS", uniqueReference: true };
      const terms = { amountUnits: 1_000_000n, description: "d", expiresInHours: 1 };
      return insertLink(tx, { id, tag: linkTag(id), userId: merchant.userId, network, order, ...terms });
    };
    const held = Promise.withResolvers<void>();
    const isInserted = Promise.withResolvers<void>();
    const first = sql.begin(async (tx) => {
      const inserted = await insert(tx, "base-sepolia");
      isInserted.resolve();
      await held.promise;
      return inserted;
    });
    await isInserted.promise;
    const second = sql.begin((tx) => insert(tx, "base"));
    await untilBlocked(sql, second);
    held.resolve();
    expect((await first).ok).toBe(true);
    expect(await second).toEqual({ ok: false, reason: "REFERENCE_TAKEN" });
  });

  test("filters the list by its exact text, with status, paging and its own count", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.unshift((await create({ reference: "LIST" })).body.id);
    await create({ reference: "LIST-2" });
    await create({ reference: "LIST" }, bob);
    await ann.client.post(`${LINKS}/${ids[2]}/cancel`);
    const first = await ann.client.get(`${LINKS}?reference=LIST&limit=2`);
    expect(first.body.links.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2));
    expect(first.body.totalCount).toBe(3);
    const next = await ann.client.get(`${LINKS}?reference=LIST&limit=2&cursor=${first.body.nextCursor}`);
    expect(next.body.links.map(({ id }: { id: string }) => id)).toEqual(ids.slice(2));
    expect(next.body.nextCursor).toBeNull();
    const active = await ann.client.get(`${LINKS}?reference=LIST&status=ACTIVE`);
    expect([active.body.links.length, active.body.totalCount]).toEqual([2, 2]);
    const cancelled = await ann.client.get(`${LINKS}?reference=LIST&status=CANCELLED`);
    expect(cancelled.body.links.map(({ id }: { id: string }) => id)).toEqual(ids.slice(2));
    expect((await ann.client.get(`${LINKS}?reference=list`)).body.totalCount).toBe(0);
    expect((await ann.client.get(`${LINKS}?reference=${"x".repeat(101)}`)).status).toBe(400);
  });

  test("filters the list by customer, case-insensitively, alone and with a reference", async () => {
    const email = "Dora.List@customer.example";
    const mine = [
      (await create({ customerEmail: email, reference: "D-1" })).body.id,
      (await create({ customerEmail: email.toLowerCase(), reference: "D-2" })).body.id,
    ].reverse();
    await create({ customerEmail: `x${email}` });
    await create({ customerEmail: email }, bob);
    const read = async (query: string) => {
      const { body } = await ann.client.get(`${LINKS}?${query}`);
      return [body.links.map(({ id }: { id: string }) => id), body.totalCount];
    };
    expect(await read("customerEmail=dora.list@CUSTOMER.example")).toEqual([mine, 2]);
    expect(await read(`customerEmail=${email}&reference=D-1`)).toEqual([mine.slice(1), 1]);
    expect(await read(`customerEmail=${email}&reference=D-3`)).toEqual([[], 0]);
    await ann.client.post(`${LINKS}/${mine[0]}/cancel`);
    expect(await read(`customerEmail=${email}&status=ACTIVE`)).toEqual([mine.slice(1), 1]);
    for (const bad of ["", "nobody", `${email}&exception=any`])
      expect((await ann.client.get(`${LINKS}?customerEmail=${bad}`)).status).toBe(400);
  });
});

describe("a paid order", () => {
  test("is found by its reference in search, events and exports, and its payer returns with a query the shop verifies", async () => {
    const metadata = { cart: "C-9", "=1+1": "@SUM(1)" };
    const made = await create({
      ...{ amount: 7.25, reference: "=ORD-PAID_9", metadata, customerEmail: "buyer@customer.example" },
      ...{ successUrl: "https://shop.example/done?a=1&b=%20x#end", cancelUrl: "https://shop.example/cart" },
    });
    const { id } = made.body;
    const { returnSecret } = (await ann.client.get("/v1/settings/return-secret")).body;
    const open = await publicData(id);
    expectSigned(open.returnUrl, { secret: returnSecret, linkId: id, status: "ACTIVE" });
    expect(open.returnUrl).toStartWith("https://shop.example/cart?linkId=");
    await sendUsdc(side.rpcUrl, side.payer, side.wallet, 7_250_000n);
    await side.waitForStatus(id, "PAID");
    const paid = await publicData(id);
    expect(paid.returnUrl).toMatch(/^https:\/\/shop\.example\/done\?a=1&b=%20x&linkId=.*#end$/);
    expectSigned(paid.returnUrl, { secret: returnSecret, linkId: id, status: "PAID" });
    expect(new URL(paid.returnUrl).searchParams.get("at")).toBe(paid.paidAt);
    // read again, nothing has changed: a stream sends no event
    expect((await publicData(id)).returnUrl).toBe(paid.returnUrl);
    const page = await (await fetch(`${side.world.baseUrl}/pay/${id}?lang=en`)).text();
    expect(page).toContain(`href="${paid.returnUrl.replaceAll("&", "&amp;")}"`);

    for (const term of ["ord-paid_9", "ORD-PAID", "%3DORD"]) {
      const found = await ann.client.get(`/v1/transactions?search=${term}`);
      expect(found.body.data.transactions).toHaveLength(1);
      expect(found.body.data.transactions[0].metadata).toMatchObject({
        linkId: id,
        reference: "=ORD-PAID_9",
      });
    }
    expect((await ann.client.get("/v1/transactions?search=ORD-PAIDx9")).body.data.pagination.total).toBe(0);
    expect((await bob.client.get("/v1/transactions?search=ORD-PAID")).body.data.pagination.total).toBe(0);

    const order = { reference: "=ORD-PAID_9", metadata, customerEmail: "buyer@customer.example" };
    const events = await waitFor("the events of the payment", async () => {
      const { body } = await ann.client.get("/v1/events?limit=100");
      const own = body.data.filter(
        ({ subjectId, data }: { subjectId: string; data: { reference?: string } }) =>
          subjectId === id || data.reference === "=ORD-PAID_9",
      );
      return own.some(({ type }: { type: string }) => type === "payment_link.paid") && own;
    });
    const types = new Set(events.map(({ type }: { type: string }) => type));
    for (const type of ["payment_link.created", "payment_link.paid", "transaction.confirmed"])
      expect(types).toContain(type);
    for (const event of events) expect(event.data).toMatchObject(order);

    const csv = await exportAs(ann.client, { format: "csv", profile: "accounting", search: "ORD-PAID" });
    const [header = [], record = []] = parseCsv(csv.text);
    const row = Object.fromEntries(header.map((name, index) => [name, record[index]]));
    expect(row).toMatchObject({
      Reference: "'=ORD-PAID_9",
      "Customer E-mail": "buyer@customer.example",
      Metadata: JSON.stringify((await ann.client.get(`${LINKS}/${id}`)).body.metadata),
    });
    const json = await exportAs(ann.client, { format: "json", profile: "accounting", search: "ORD-PAID" });
    expect(JSON.parse(json.text)[0].accounting).toMatchObject(order);
    const standard = await exportAs(ann.client, { format: "csv", search: "ORD-PAID" });
    expect(parseCsv(standard.text)[0]).toHaveLength(8);
  }, 120_000);

  test("a payer returns as cancelled from a cancelled link, and is sent nowhere while a payment is in progress", async () => {
    const { body } = await create({ cancelUrl: "https://shop.example/cart" });
    await side.world.sql`update payment_links set status = 'PENDING' where id = ${body.id}`;
    // it rests on nothing: still payable, so the payer may leave
    expect((await publicData(body.id)).returnUrl).toContain("status=PENDING");
    await side.world.sql`update payment_links set status = 'ACTIVE' where id = ${body.id}`;
    await ann.client.post(`${LINKS}/${body.id}/cancel`);
    expect((await publicData(body.id)).returnUrl).toContain("status=CANCELLED");
    const success = await create({ successUrl: "https://shop.example/done" });
    await ann.client.post(`${LINKS}/${success.body.id}/cancel`);
    expect((await publicData(success.body.id)).returnUrl).toBeNull();
  });
});

describe("the return secret", () => {
  test("is a merchant's own, sealed in the database, and replaced immediately", async () => {
    const read = async (merchant: Merchant) =>
      (await merchant.client.get("/v1/settings/return-secret")).body.returnSecret;
    const [first, again, others] = [await read(ann), await read(ann), await read(bob)];
    expect(first).toMatch(/^ret_[0-9a-f]{64}$/);
    expect([again, others === first]).toEqual([first, false]);
    const [row] = await side.world
      .sql`select sealed_return_secret from merchant_pages where user_id = ${ann.userId}`;
    expect(Buffer.from(row?.sealedReturnSecret).toString("latin1")).not.toContain(first.slice(4));
    const rotated = await ann.client.post("/v1/settings/return-secret/rotate");
    expect(rotated.status).toBe(200);
    expect(await read(ann)).toBe(rotated.body.returnSecret);
    expect(rotated.body.returnSecret).not.toBe(first);
    const { body } = await create({ cancelUrl: "https://shop.example/c" });
    const { returnUrl } = await publicData(body.id);
    expectSigned(returnUrl, { secret: rotated.body.returnSecret, linkId: body.id, status: "ACTIVE" });
    const trail = await side.world.sql`
      select 1 from security_events where user_id = ${ann.userId} and type = 'return_secret_rotated'`;
    expect(trail.length).toBe(1);
  });

  test("requires a session with a fresh passkey, never an API key", async () => {
    const key = await ann.client.post("/v1/api-keys", {
      name: "Shop",
      scopes: ["links:read", "links:write"],
    });
    const bearer = { authorization: `Bearer ${key.body.data.key}` };
    const shop = openClient(side.world.baseUrl);
    expect([401, 403]).toContain((await shop.get("/v1/settings/return-secret", bearer)).status);
    expect((await shop.get("/v1/settings/return-secret")).status).toBe(401);
    await side.world
      .sql`update sessions set passkey_at = now() - interval '16 minutes' where user_id = ${bob.userId}`;
    const stale = await bob.client.get("/v1/settings/return-secret");
    expect([stale.status, stale.body.error.details.issue]).toEqual([403, "passkey_required"]);
  });

  test("signs the four values joined by newlines, with an empty text for no reference", () => {
    const at = new Date("2026-11-22T10:00:00.000Z");
    const linkId = "link_AAAAAAAAAAAAAAAAAAAAAA";
    const url = signReturnUrl(
      "https://a.example/x",
      { linkId, reference: null, status: "PAID", at },
      "ret_key",
    );
    const sig = createHmac("sha256", "ret_key")
      .update(`${linkId}\n\nPAID\n2026-11-22T10:00:00.000Z`)
      .digest("hex");
    expect(url).toBe(
      `https://a.example/x?linkId=${linkId}&reference=&status=PAID&at=2026-11-22T10%3A00%3A00.000Z&sig=${sig}`,
    );
    expect(whyNotAReturnUrl("https://a.example/?LinkId=1")).toBeUndefined();
  });
});

/** As a shop checks it: from the query alone, with the secret of the settings page. */
function expectSigned(
  url: string,
  { secret, linkId, status }: { secret: string; linkId: string; status: string },
): void {
  const query = new URL(url).searchParams;
  expect([query.get("linkId"), query.get("status")]).toEqual([linkId, status]);
  const signed = ["linkId", "reference", "status", "at"].map((name) => query.get(name)).join("\n");
  expect(query.get("sig")).toBe(createHmac("sha256", secret).update(signed).digest("hex"));
}
