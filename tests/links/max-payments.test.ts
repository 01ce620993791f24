/** A maximum of payments, over HTTP: what payers are told while no place is left, and afterwards. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { openUse } from "../../db/links/uses.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { makePayer, signPayment } from "../support/payer.ts";
import { untilBlocked } from "../support/until-blocked.ts";
import { type PayerSide, startPayerSide } from "./payer-side.ts";
import { newProvingPayer } from "./payers.ts";
import { LINKS, PUBLIC, reusableLinks, units } from "./reusable-links.ts";

let side: PayerSide;
beforeAll(async () => {
  side = await startPayerSide({ env: { TRUSTED_PROXIES: "127.0.0.1,::1" } });
}, 120_000);
afterAll(() => side?.world.stop());

const { stranger, publicData, reusable, sign, pay } = reusableLinks(() => side);
const open = (id: string, body?: unknown) =>
  stranger().post(`${PUBLIC}/${id}/uses`, body ?? {}, fromNewAddress());
let addresses = 0;
const fromNewAddress = () => ({ "x-forwarded-for": `203.0.113.${++addresses % 250}` });

describe("the maximum of payments", () => {
  test("holds for sixteen concurrent payers", async () => {
    const id = await reusable({ amount: 1.1, maxPayments: 3 });
    const opened = await Promise.all(Array.from({ length: 16 }, () => open(id)));
    expect(opened.map(({ status }) => status).sort()).toEqual([
      ...Array(3).fill(201),
      ...Array(13).fill(409),
    ]);
    expect(await publicData(id)).toMatchObject({ payable: false, status: "ACTIVE" });
    const late = await pay(id, await sign(1.1));
    expect([late.status, late.body.error]).toEqual([409, "LINK_ALREADY_PAID"]);
    expect(late.body.message).toBe("all payments of this link are made or begun");
    const terms = await stranger().get(`/v1/x402/${id}`);
    expect(terms.body).toMatchObject({ accepts: [], error: "LINK_ALREADY_PAID" });
    const refused = opened.find(({ status }) => status === 409);
    expect(refused?.body.error.message).toBe("All payments of this link are made or begun");
    for (const { headers } of [refused, late, terms].filter((answer) => answer !== undefined)) {
      const retryS = Number(headers.get("retry-after"));
      expect(retryS).toBeGreaterThan(13 * 60);
      expect(retryS).toBeLessThanOrEqual(15 * 60);
    }
    // a use that was not paid in time gives its place back
    const place = opened.find(({ status }) => status === 201)?.body.linkId;
    await side.world.sql`
      update payment_links set created_at = now() - interval '2 hours', expires_at = now() - interval '1 second'
      where id = ${place}`;
    const paid = await pay(id, await sign(1.1));
    expect([paid.status, paid.body.error]).toEqual([200, null]);
    expect((await open(id)).status).toBe(409);
  }, 120_000);

  test("holds between two transactions: the second waits for the first, and finds no place left", async () => {
    const { sql } = side.world;
    const parentId = await reusable({ amount: 1.2, maxPayments: 2 });
    expect((await open(parentId)).status).toBe(201);
    const insert = (tx: Tx) => {
      const id = newLinkId();
      return openUse(tx, { parentId, id, tag: linkTag(id), amountUnits: undefined, opener: "203.0.113.1" });
    };
    const held = Promise.withResolvers<void>();
    const isOpened = Promise.withResolvers<void>();
    const first = sql.begin(async (tx) => {
      const opened = await insert(tx);
      isOpened.resolve();
      await held.promise;
      return opened;
    });
    await isOpened.promise;
    const second = sql.begin(insert);
    await untilBlocked(sql, second);
    held.resolve();
    expect((await first).ok).toBe(true);
    expect(await second).toMatchObject({ ok: false, reason: "LINK_ALREADY_PAID" });
  });

  test("is shown in lists as used up while no place is left, and only then", async () => {
    const [full, endless] = [await reusable({ maxPayments: 2 }), await reusable()];
    // too many to be counted for each link of a list
    const large = await reusable({ maxPayments: 1_001 });
    const usedUp = async () => {
      const { links } = (await side.ann.client.get(LINKS)).body;
      return [full, endless, large].map((id) => links.find((link: { id: string }) => link.id === id).usedUp);
    };
    const uses = [await open(full), await open(endless)];
    expect(await usedUp()).toEqual([false, false, undefined]);
    uses.push(await open(full), await open(endless));
    expect(await usedUp()).toEqual([true, false, undefined]);
    await side.world.sql`
      update payment_links set created_at = now() - interval '2 days', expires_at = now() where id = ${uses[0]?.body.linkId}`;
    expect(await usedUp()).toEqual([false, false, undefined]);
  });

  test("a stranger's many uses leave the link payable for others, by x402 and on the page", async () => {
    const id = await reusable({ amount: 1.6, maxPayments: 3 });
    const address = { "x-forwarded-for": "198.51.100.7" };
    const openAsStranger = () => stranger().post(`${PUBLIC}/${id}/uses`, {}, address);
    const uses = [await openAsStranger(), await openAsStranger(), await openAsStranger()];
    expect(uses.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect((await openAsStranger()).status).toBe(409);
    expect(await publicData(id)).toMatchObject({ payable: true });
    const paid = await pay(id, await sign(1.6), fromNewAddress());
    expect([paid.status, paid.body.success]).toEqual([200, true]);
    expect((await open(id)).status).toBe(201);
    const states = await Promise.all(uses.map(({ body }) => side.statusOf(body.linkId)));
    expect(states).toEqual(["ACTIVE", "EXPIRED", "EXPIRED"]);
    // what gave its place is paid no longer
    const late = await pay(uses[2]?.body.linkId, await sign(1.6));
    expect([late.status, late.body.error]).toEqual([422, "LINK_NOT_PAYABLE"]);
  }, 120_000);

  test.each([
    ["sign a new authorization", undefined],
    ["sign a new authorization and use a new Idempotency-Key", "order-7"],
  ])("an x402 payer whose use gave its place is told to: %s", async (advice, key) => {
    const id = await reusable({ amount: 2.1, maxPayments: 2 });
    const { sql } = side.world;
    await sql`
      update payment_links set status = 'PAID', paid_at = now() where id = ${(await open(id)).body.linkId}`;
    const headers = { ...fromNewAddress(), ...(key ? { "idempotency-key": key } : {}) };
    const poor = signPayment(makePayer(), { to: side.wallet, amountUnits: units(2.1) });
    const unfunded = await pay(id, await poor, headers);
    expect([unfunded.status, unfunded.body.error]).toEqual([422, "INSUFFICIENT_FUNDS"]);
    await sql`update payment_links set created_at = now() - interval '16 minutes' where parent_id = ${id}`;
    const next = await open(id);
    expect(next.status).toBe(201);
    const full = await pay(id, await poor, headers);
    expect([full.status, full.body.error]).toEqual([409, "LINK_ALREADY_PAID"]);
    expect(Number(full.headers.get("retry-after"))).toBeGreaterThan(13 * 60);
    expect(full.body.message).toBe(
      `all payments of this link are made or begun; to try again later, ${advice}`,
    );
    await sql`update payment_links set created_at = now() - interval '16 minutes' where id = ${next.body.linkId}`;
    const ended = await pay(id, await poor, headers);
    expect([ended.status, ended.body.error]).toEqual([422, "LINK_NOT_PAYABLE"]);
    expect(ended.body.message).toEndWith(`has expired unpaid; ${advice}`);
    // who may have paid is not told to pay again
    await sql`
      update payments set doubt_since = now(), doubt_until = now() + interval '1 hour'
      where link_id in (select id from payment_links where parent_id = ${id})`;
    const unknown = await pay(id, await poor, headers);
    expect([unknown.body.error, unknown.body.message]).toEqual(["LINK_NOT_PAYABLE", "this link has expired"]);
  });

  test("the page says in how many minutes a place may become free, and then tries again", async () => {
    const id = await reusable({ amount: 1.7, maxPayments: 2 });
    const use = (await open(id)).body.linkId;
    expect((await open(id)).status).toBe(201);
    await side.world
      .sql`update payment_links set created_at = now() - interval '5 minutes 30 seconds' where id = ${use}`;
    const read = async (method: string) => {
      const init = { method, headers: fromNewAddress() };
      const page = await fetch(`${side.world.baseUrl}/pay/${id}?lang=en`, init);
      return { status: page.status, text: await page.text() };
    };
    for (const [method, status] of [
      ["GET", 200],
      ["POST", 409],
    ] as const) {
      const page = await read(method);
      expect([page.status, page.text.includes("<form")]).toEqual([status, false]);
      expect(page.text).toContain("may become free in 10 minutes.");
      const [, seconds] = /http-equiv="refresh" content="(\d+)"/.exec(page.text) ?? [];
      expect(Number(seconds)).toBeGreaterThan(500);
      expect(Number(seconds)).toBeLessThanOrEqual(570);
    }
    await side.world.sql`update payment_links set status = 'PAID', paid_at = now() where parent_id = ${id}`;
    const over = (await read("GET")).text;
    expect(over).toContain("This link accepts no further payments");
    expect(over).not.toContain("refresh");
  });

  test("a browser that returns to the form is led to the payment that it has opened", async () => {
    const id = await reusable({ amount: null, minAmount: 1, maxAmount: 9, maxPayments: 1 });
    const address = fromNewAddress();
    const send = async (amount: string, cookie?: string) => {
      const answer = await fetch(`${side.world.baseUrl}/pay/${id}?lang=en`, {
        method: "POST",
        redirect: "manual",
        headers: { ...address, ...(cookie ? { cookie } : {}) },
        body: new URLSearchParams({ amount }),
      });
      const [set = ""] = answer.headers.getSetCookie();
      const use = /link_[\w-]+/.exec(answer.headers.get("location") ?? "")?.[0];
      return { status: answer.status, use, set, cookie: set.split(";")[0] };
    };
    const first = await send("2");
    expect(first.status).toBe(303);
    expect(first.set).toContain(`Path=/pay/${id}; Max-Age=3600; HttpOnly; SameSite=Lax`);
    expect((await send("2")).status).toBe(409);
    expect(await send("2", first.cookie)).toMatchObject({ status: 303, use: first.use });
    // another amount is another payment, in the place of the first
    const other = await send("3", first.cookie);
    expect(other.status).toBe(303);
    expect(await Promise.all([first.use, other.use].map((use) => side.statusOf(use ?? "")))).toEqual([
      "EXPIRED",
      "ACTIVE",
    ]);
    // no other payment's, and none of a link without a maximum
    const endless = await reusable({ amount: 1.8 });
    const page = await fetch(`${side.world.baseUrl}/pay/${endless}`, { method: "POST", redirect: "manual" });
    expect([page.status, page.headers.getSetCookie()]).toEqual([303, []]);
  });

  test("a cancelled link takes no payment by a use that rests on a claim alone", async () => {
    const id = await reusable({ amount: 1.9 });
    const use = (await open(id)).body.linkId;
    const payer = await newProvingPayer(side.rpcUrl, 0n);
    const hash = `0x${"5a".repeat(32)}`;
    expect((await side.prove(use, hash, payer)).status).toBe(200);
    expect(await side.statusOf(use)).toBe("PENDING");
    expect((await side.ann.client.post(`${LINKS}/${id}/cancel`)).status).toBe(200);
    expect([await side.statusOf(use), (await side.claimRow(use))?.state]).toEqual(["CANCELLED", "EXPIRED"]);
    const late = await pay(use, await sign(1.9));
    expect([late.status, late.body.error]).toEqual([422, "LINK_NOT_PAYABLE"]);
  });

  test("a cancelled link takes no payment, nor do its unpaid uses", async () => {
    const id = await reusable({ amount: 1.3 });
    const use = (await open(id)).body.linkId;
    expect((await side.ann.client.post(`${LINKS}/${id}/cancel`)).status).toBe(200);
    expect((await open(id)).status).toBe(409);
    expect(await side.statusOf(use)).toBe("CANCELLED");
    expect((await pay(id, await sign(1.3))).body.error).toBe("LINK_NOT_PAYABLE");
    const expired = await reusable({ amount: 1.4 });
    await side.world.sql`
      update payment_links set created_at = now() - interval '2 days', expires_at = now() where id = ${expired}`;
    expect((await open(expired)).status).toBe(409);
    expect((await pay(expired, await sign(1.4))).body.error).toBe("LINK_NOT_PAYABLE");
  });
});
