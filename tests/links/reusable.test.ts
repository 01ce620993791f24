/** Links that many payers pay, and links whose payer chooses the amount: each payment is a use, a link of its own. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { assertInvariants } from "../support/invariants.ts";
import { standardV1 } from "../support/payer.ts";
import { type PayerSide, startPayerSide, waitFor } from "./payer-side.ts";
import { newProvingPayer, sendUsdc } from "./payers.ts";
import { LINKS, PUBLIC, reusableLinks, units } from "./reusable-links.ts";

let side: PayerSide;
beforeAll(async () => {
  side = await startPayerSide();
}, 120_000);
afterAll(() => side?.world.stop());

const { stranger, create, publicData, reusable, sign, pay } = reusableLinks(() => side);
const open = (id: string, body?: unknown) => stranger().post(`${PUBLIC}/${id}/uses`, body ?? {});
const paymentsOf = async (id: string) => (await side.ann.client.get(`${LINKS}/${id}/payments`)).body.payments;

describe("creating", () => {
  test.each([
    [{ maxPayments: 1 }, { maxPayments: 0 }],
    [{ maxPayments: 1_000_000 }, { maxPayments: 1_000_001 }],
    [{ maxPayments: 2 }, { maxPayments: 1.5 }],
    [
      { amount: null, minAmount: 5, maxAmount: 5 },
      { amount: null, minAmount: 5.01, maxAmount: 5 },
    ],
    [
      { amount: null, minAmount: 0.00001 },
      { amount: null, minAmount: 0.000001 },
    ],
    [
      { amount: null, maxAmount: 1_000_000 },
      { amount: null, maxAmount: 1_000_000.1 },
    ],
    [{ amount: null, minAmount: 1 }, { amount: null }],
    [
      { amount: null, maxAmount: 2 },
      { amount: 2, minAmount: 1 },
    ],
    [
      { maxPayments: 1, customerEmail: "a@b.example" },
      { maxPayments: 2, customerEmail: "a@b.example" },
    ],
  ])("%p is accepted and %p refused with 400", async (inside, outside) => {
    expect((await create(inside)).status).toBe(201);
    expect((await create(outside)).status).toBe(400);
  });

  test("a default link shows its amount and reads as a single-use link", async () => {
    const { body } = await create({});
    expect(body).toMatchObject({
      amount: 2,
      maxPayments: 1,
      minAmount: null,
      maxAmount: null,
      parentId: null,
    });
    expect(await publicData(body.id)).toMatchObject({ amount: 2, reusable: false });
    expect((await open(body.id)).status).toBe(404);
  });

  test("an open link shows no amount but its bounds, and nothing that a transfer could be matched by", async () => {
    const { body } = await create({ amount: null, minAmount: 1, maxAmount: 50, maxPayments: 3 });
    expect(body).toMatchObject({ amount: null, minAmount: 1, maxAmount: 50, maxPayments: 3 });
    const data = await publicData(body.id);
    expect(data).toMatchObject({ amount: null, minAmount: 1, maxAmount: 50, reusable: true, payable: true });
    expect([data.tag, data.payAmount]).toEqual([null, null]);
  });
});

describe("a reusable link with a fixed amount", () => {
  test("is paid by several concurrent payers with x402, stays ACTIVE, and each payment is its own", async () => {
    const id = await reusable({ amount: 2.5, reference: "SHARED" });
    const signed = await Promise.all([sign(2.5), sign(2.5), sign(2.5)]);
    const answers = await Promise.all(signed.map((payment) => pay(id, payment)));
    expect(answers.map(({ status, body }) => [status, body.success])).toEqual(Array(3).fill([200, true]));
    const payments = await waitFor("three payments", async () => {
      const found = await paymentsOf(id);
      return (
        found.length === 3 && found.every(({ status }: { status: string }) => status === "PAID") && found
      );
    });
    const payers = payments.map(({ payer }: { payer: string }) => payer).sort();
    expect(payers).toEqual(signed.map(({ from }) => from.toLowerCase()).sort());
    expect(await side.statusOf(id)).toBe("ACTIVE");
    for (const payment of payments) {
      expect(payment).toMatchObject({ amount: 2.5, refundedAmount: 0 });
      const receipt = await stranger().get(`${PUBLIC}/${id}/receipt?paymentId=${payment.paymentId}`);
      expect(receipt.body).toMatchObject({
        linkId: payment.linkId,
        transactionHash: payment.transactionHash,
      });
      const { body } = await side.ann.client.get(`/v1/transactions?search=${payment.transactionHash}`);
      expect(body.data.transactions[0]).toMatchObject({
        type: "PAYMENT_LINK",
        metadata: { reference: "SHARED" },
      });
    }
    // an authorization names its payment, so none of the wallet's unique amounts is reserved for it
    const unique = await side.world
      .sql`select from payment_links where parent_id = ${id} and pay_amount_units is not null`;
    expect(unique).toHaveLength(0);
    // the same bytes again pay nothing: the use is the same
    const again = await pay(id, signed[0] as (typeof signed)[0]);
    expect([again.status, again.body.error, again.body.txHash]).toEqual([
      ...[409, "NONCE_USED", answers[0]?.body.txHash],
    ]);
    const wrong = await pay(id, await sign(2.4));
    expect([wrong.status, wrong.body.error]).toEqual([422, "AMOUNT_BELOW_REQUIRED"]);
    expect(await paymentsOf(id)).toHaveLength(3);
    expect((await side.ann.client.get(`${LINKS}?reference=SHARED`)).body.totalCount).toBe(1);
  }, 120_000);

  test("opens no use for a signature that is not the payer's", async () => {
    const id = await reusable();
    const good = await sign(2);
    const forged = await pay(id, { ...good, signature: `0x${"11".repeat(64)}1b` as Hex });
    expect([forged.status, forged.body.error]).toEqual([400, "INVALID_SIGNATURE"]);
    expect(await side.world.sql`select 1 from payment_links where parent_id = ${id}`).toHaveLength(0);
  });

  test("is matched by a use's unique amount and never by its plain amount, which stays free for other links", async () => {
    const id = await reusable({ amount: 3.75 });
    const use = (await open(id)).body;
    const { payAmount } = await publicData(use.linkId);
    expect(payAmount).toBeGreaterThan(3.75);
    // an ordinary link of the same price is still the only one that its plain amount fits
    const other = (await create({ amount: 3.75 })).body.id;
    await sendUsdc(side.rpcUrl, side.payer, side.wallet, units(3.75));
    await side.waitForStatus(other, "PAID");
    expect(await side.statusOf(use.linkId)).toBe("ACTIVE");
    await sendUsdc(side.rpcUrl, side.payer, side.wallet, units(3.75));
    await sendUsdc(side.rpcUrl, side.payer, side.wallet, units(payAmount));
    await side.waitForStatus(use.linkId, "PAID");
    const [payment] = await paymentsOf(id);
    expect(payment).toMatchObject({ linkId: use.linkId, amount: payAmount, paymentId: null });
    const rows = await side.world.sql`
      select 1 from transfers where amount_units = 3750000 and link_id is not null and link_id <> ${other}`;
    expect(rows).toHaveLength(0);
  }, 120_000);

  test("two concurrent payers of two uses never interfere; each use takes one payment", async () => {
    const id = await reusable({ amount: 4.2 });
    const [a, b] = [(await open(id)).body.linkId, (await open(id)).body.linkId];
    expect(a).not.toBe(b);
    const [first, second] = await Promise.all([pay(a, await sign(4.2)), pay(b, await sign(4.2))]);
    expect([first?.status, second?.status]).toEqual([200, 200]);
    const third = await pay(a, await sign(4.2));
    expect([third.status, third.body.error]).toEqual([409, "LINK_ALREADY_PAID"]);
  }, 120_000);
});

describe("an open amount", () => {
  test("is chosen with ?amount= by x402; without it no payment is requested", async () => {
    const id = await reusable({ amount: null, minAmount: 1, maxAmount: 10 });
    const ask = async (query: string) => (await stranger().get(`/v1/x402/${id}${query}`)).body;
    expect(await ask("")).toMatchObject({ accepts: [], error: "AMOUNT_REQUIRED" });
    expect(await ask("?amount=0.99")).toMatchObject({ accepts: [], error: "AMOUNT_BELOW_REQUIRED" });
    expect(await ask("?amount=10.01")).toMatchObject({ accepts: [], error: "AMOUNT_EXCEEDS_MAXIMUM" });
    expect(await ask("?amount=1.000001")).toMatchObject({ accepts: [], error: "AMOUNT_REQUIRED" });
    for (const amount of ["1", "10", "7.00001"]) {
      const { accepts, error } = await ask(`?amount=${amount}`);
      expect([error, accepts[0].amount]).toEqual([null, units(Number(amount)).toString()]);
    }
    const paid = await pay(id, await sign(7.5));
    expect([paid.status, paid.body.success]).toEqual([200, true]);
    for (const [amount, error] of [
      [0.99, "AMOUNT_BELOW_REQUIRED"],
      [10.01, "AMOUNT_EXCEEDS_MAXIMUM"],
      [1.000001, "AMOUNT_REQUIRED"],
    ] as const)
      expect((await pay(id, await sign(amount))).body.error).toBe(error);
    const header = Buffer.from(JSON.stringify(standardV1(await sign(1)))).toString("base64");
    const byHeader = await stranger().get(`/v1/x402/${id}?amount=1`, { "x-payment": header });
    expect([byHeader.status, byHeader.body.success]).toEqual([200, true]);
    const payments = await waitFor("both payments", async () => {
      const found = await paymentsOf(id);
      return (
        found.length === 2 && found.every(({ status }: { status: string }) => status === "PAID") && found
      );
    });
    expect(payments.map(({ amount }: { amount: number }) => amount)).toEqual([1, 7.5]);
  }, 120_000);

  test("error: one that the link does not accept is explained without an authorization or a query, which there are not", async () => {
    const id = await reusable({ amount: null, minAmount: 1, maxAmount: 10 });
    for (const [body, issue, message] of [
      [{}, "AMOUNT_REQUIRED", /at most 5 decimals/],
      [{ amount: 1.000001 }, "AMOUNT_REQUIRED", /at most 5 decimals/],
      [{ amount: 0.99 }, "AMOUNT_BELOW_REQUIRED", /less than this link accepts/],
      [{ amount: 10.01 }, "AMOUNT_EXCEEDS_MAXIMUM", /more than this link accepts/],
    ] as const) {
      const answer = await open(id, body);
      expect(answer.status).toBe(400);
      expect(answer.body.error.details).toEqual({ field: "amount", issue });
      expect(answer.body.error.message).toMatch(message);
      expect(answer.body.error.message).not.toMatch(/authorization|\?amount/);
    }
  });

  test("is matched by proof, never by the amount alone", async () => {
    const id = await reusable({ amount: null, minAmount: 1, maxAmount: 10 });
    const use = (await open(id, { amount: 6.4 })).body;
    expect(await publicData(use.linkId)).toMatchObject({ amount: 6.4, payAmount: null, parentId: id });
    const payer = await newProvingPayer(side.rpcUrl, 50_000_000n);
    const hash = await sendUsdc(side.rpcUrl, payer.lower, side.wallet, units(6.4));
    await waitFor("the transfer to be confirmed", async () => {
      const [row] = await side.world.sql`select status, link_id from transfers where tx_hash = ${hash}`;
      return row?.status === "CONFIRMED" && row;
    });
    const claimed = await side.claim(use.linkId, hash, payer.lower);
    expect([claimed.status, claimed.body.proofRequired]).toEqual([200, true]);
    expect(await side.statusOf(use.linkId)).toBe("ACTIVE");
    expect((await side.prove(use.linkId, hash, payer)).status).toBe(200);
    await side.waitForStatus(use.linkId, "PAID");
    expect(await paymentsOf(id)).toMatchObject([{ amount: 6.4, transactionHash: hash }]);
    // a claim on the reusable link itself is refused: nothing pays it
    expect((await side.claim(id, hash, payer.lower)).status).toBe(409);
  }, 120_000);

  test.each([
    [{ amount: 1 }, 201],
    [{ amount: 10 }, 201],
    [{ amount: 0.99 }, 400],
    [{ amount: 10.01 }, 400],
    [{ amount: 1.000001 }, 400],
    [{}, 400],
    [{ amount: 1, more: 2 }, 400],
  ])("a use with %p answers %p", async (body, status) => {
    const id = await reusable({ amount: null, minAmount: 1, maxAmount: 10 });
    expect((await open(id, body)).status).toBe(status);
  });

  test("the page's form opens a use and leads to its page, without JavaScript", async () => {
    const id = await reusable({
      amount: null,
      minAmount: 1,
      maxAmount: 10,
      description: "Give <what> you like",
    });
    const send = (text: string) =>
      fetch(`${side.world.baseUrl}/pay/${id}?lang=de`, {
        method: "POST",
        redirect: "manual",
        body: new URLSearchParams({ amount: text }),
      });
    const page = await fetch(`${side.world.baseUrl}/pay/${id}?lang=de`);
    const text = await page.text();
    expect(text).toContain("Give &lt;what&gt; you like");
    expect(text).toContain("Wählen Sie einen Betrag von 1,00 bis 10,00\u00a0USDC.");
    expect(page.headers.get("content-security-policy")).toContain("form-action 'self'");
    const led = await send("2,50");
    expect(led.status).toBe(303);
    const use = await (await fetch(`${side.world.baseUrl}${led.headers.get("location")}`)).text();
    expect(use).toContain("<bdi>2,50</bdi>");
    for (const wrong of ["", "abc", "0,99", "10,01"]) {
      const refused = await send(wrong);
      const text = await refused.text();
      expect([refused.status, text.includes('role="alert"'), text.includes(`value="${wrong}"`)]).toEqual([
        ...[400, true, true],
      ]);
    }
    const other = (await create({})).body.id;
    expect((await fetch(`${side.world.baseUrl}/pay/${other}`, { method: "POST" })).status).toBe(404);
  });

  test("the page's form asks again for an amount that is one or a thousand to different people", async () => {
    const id = await reusable({ amount: null, minAmount: 1, maxAmount: 5000 });
    const send = (amount: string, language: string) =>
      fetch(`${side.world.baseUrl}/pay/${id}?lang=${language}`, {
        method: "POST",
        redirect: "manual",
        body: new URLSearchParams({ amount }),
      });
    for (const [amount, language, advice] of [
      ["1,000", "en", "Write a thousand as 1000.00 and one as 1.00."],
      ["1,000", "de", "Schreiben Sie tausend als 1000,00 und eins als 1,00."],
      ["1.000", "de", "Schreiben Sie tausend als 1000,00 und eins als 1,00."],
    ] as const) {
      const asked = await send(amount, language);
      expect([asked.status, (await asked.text()).includes(advice)]).toEqual([400, true]);
    }
    const open = async () => (await side.world.sql`select from payment_links where parent_id = ${id}`).length;
    expect(await open()).toBe(0);
    expect((await send("1.125", "en")).status).toBe(303);
    expect((await send("1000", "de")).status).toBe(303);
    expect(await open()).toBe(2);
  });
});

test("totals agree with the chain: earnings include every use, the list and its counts none", async () => {
  await assertInvariants(side.world.sql, { rpcUrl: side.rpcUrl, chainId: side.world.chain.chainId });
  const stats = (await side.ann.client.get(`${LINKS}/stats`)).body;
  const [sum] = await side.world.sql<{ units: bigint; links: number; paid: number }[]>`
    select
      coalesce(sum(coalesce(paid_units, amount_units)) filter (where status = 'PAID'), 0)::bigint as units,
      count(*) filter (where parent_id is null)::int as links,
      count(*) filter (where parent_id is null and status = 'PAID')::int as paid
    from payment_links
    where user_id = ${side.ann.userId}`;
  expect(units(stats.totalEarnings)).toBe(sum?.units ?? -1n);
  expect([stats.totalLinks, stats.paidLinks]).toEqual([sum?.links, sum?.paid]);
  const { body } = await side.ann.client.get(`${LINKS}?limit=100`);
  expect(body.links.every(({ parentId }: { parentId: string | null }) => parentId === null)).toBe(true);
  expect(body.totalCount).toBe(sum?.links);
});
