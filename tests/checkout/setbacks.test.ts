/**
 * What goes wrong while people pay: refusals lead on, unknown outcomes show no button, no order is paid twice; and with several people or tabs nobody
 * pays twice, and nobody gets what another one paid for.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { callRpc } from "../../local/chain/rpc.ts";
import tr from "../../web/messages/tr.json" with { type: "json" };
import { waitFor } from "../links/payer-side.ts";
import { newPayer, newProvingPayer, sendUsdc } from "../links/payers.ts";
import { findBarriers, holdAnimations, isBrowserThere, visit } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";
import { payTogether } from "./two-payers-campaign.ts";

let world: CheckoutWorld;
beforeAll(async () => {
  if (isBrowserThere) world = await startCheckoutWorld();
}, 120_000);
afterEach(() => world?.world.startMissing());
afterAll(() => world?.stop());

const PAID_MS = 60_000;
const payButton = (page: Page) => page.getByRole("button", { name: "Pay with" });
const paid = (page: Page) => page.getByRole("heading", { name: "Paid" });
const thanks = (page: Page) => page.getByText(/^Thank you\./);
const settledBy = async (linkId: string) =>
  (await world.world.sql`select settled_by from payment_links where id = ${linkId}`)[0]?.settledBy;
const countTransfers = async (linkId: string) =>
  Number((await world.world.sql`select count(*) from transfers where link_id = ${linkId}`)[0]?.count);

/** As a browser does when another tab comes to the front; headless pages are always seen. */
const setHidden = (page: Page, isHidden: boolean) =>
  page.evaluate(
    `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"))`,
  );

/** Counts the page's open streams in `globalThis.streams`. */
const COUNT_STREAMS = `{
  const streams = (globalThis.streams = []);
  const Original = EventSource;
  globalThis.EventSource = class extends Original { constructor(...given) { super(...given); streams.push(this); } };
}`;
const openStreams = (page: Page) =>
  page.evaluate("streams.filter(({ readyState }) => readyState !== 2).length") as Promise<number>;

describe.if(isBrowserThere)("the payment page", () => {
  test("a declined signature shows that nothing was sent, and leads to a transfer that pays by its tag", async () => {
    const { id, amountUnits } = await world.makeLink();
    await world.makeLink(amountUnits);
    const wallet = await world.wallet({ declines: { method: "eth_signTypedData_v4", times: 1 } });
    // the indexer may pay the link by the tag before the page has claimed the transfer
    const { page, expectClean, close } = await world.open(id, [wallet], {
      allowedErrors: /409 \(Conflict\)/,
    });
    await payButton(page).click();
    await page.getByText("You declined in Test Wallet. Nothing was sent.").waitFor();
    expect(await payButton(page).isVisible()).toBe(true);
    expect(await findBarriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Send a transfer instead" }).click();
    await thanks(page).waitFor({ timeout: PAID_MS });
    expect(wallet.hashes).toHaveLength(1);
    expect(await settledBy(id)).toBe("tag");
    expectClean();
    await close();
  });

  test("a transfer is claimed in the language the page is shown in, not the browser's", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ declines: { method: "eth_signTypedData_v4", times: 1 } });
    const { page, close } = await world.open(id, [wallet], {
      query: "?lang=tr",
      allowedErrors: /409 \(Conflict\)/,
    });
    await page.locator("#pay button").click();
    const [claim] = await Promise.all([
      page.waitForRequest(`**/${id}/complete`),
      page.getByRole("button", { name: tr.transferInstead }).click(),
    ]);
    expect((await claim.allHeaders())["accept-language"]).toBe("tr");
    await page.locator('a[href*="/receipt?lang=tr"]').waitFor({ timeout: PAID_MS });
    expect(wallet.hashes).toHaveLength(1);
    await close();
  });

  for (const [what, options, text] of [
    ["cannot sign it", { fails: { eth_signTypedData_v4: 4200 } }, "This wallet cannot sign"],
    ["signs with another key", { signsForeign: true }, "This wallet cannot sign"],
  ] as const)
    test(`a wallet that ${what} is offered the transfer`, async () => {
      const { id } = await world.makeLink();
      const allowedErrors = /400 \(Bad Request\)/;
      const { page, expectClean, close } = await world.open(id, [await world.wallet(options)], {
        allowedErrors,
      });
      await payButton(page).click();
      await page.getByText(text).waitFor();
      await page.getByRole("button", { name: "Send a transfer instead" }).waitFor();
      expect(await world.statusOf(id)).toBe("ACTIVE");
      expectClean();
      await close();
    });

  test("an insufficient balance: shows what the wallet holds, and asks for no signature", async () => {
    const { id, amountUnits } = await world.makeLink();
    const wallet = await world.wallet({ fundsUnits: amountUnits - 1n });
    const { page, close } = await world.open(id, [wallet]);
    await payButton(page).click();
    await page.getByText(/This wallet holds 1\.\d+\s+USDC/).waitFor();
    expect(wallet.calls).not.toContain("eth_signTypedData_v4");
    await close();
  });

  test("a script that does not load leaves the amount and address for a manual payment", async () => {
    const { id } = await world.makeLink();
    let letWaitEnd = async () => {};
    const reader = await visit(world.browser, `${world.world.baseUrl}/pay/${id}`, {
      allowedErrors: /net::ERR_FAILED/,
      prepare: async (page) => {
        letWaitEnd = await holdAnimations(page);
        await page.route("**/*.js", (route) => route.abort());
      },
    });
    const inside = reader.page.locator("#by-hand .inside");
    const heightOf = async () => (await inside.boundingBox())?.height ?? 0;
    // nothing moves while the script may still come
    expect([await inside.isVisible(), await heightOf()]).toEqual([false, 0]);
    await letWaitEnd();
    await inside.waitFor({ state: "visible" });
    expect(await heightOf()).toBeGreaterThan(200);
    expect(await inside.getByText(/^0x[0-9a-fA-F]{40}$/).isVisible()).toBe(true);
    await reader.page.locator(".placeholder").waitFor({ state: "hidden" });
    reader.expectClean();
    await reader.close();
  });

  test("a second tab of the same browser does not pay while the first one does", async () => {
    const { id } = await world.makeLink();
    const gate = Promise.withResolvers<void>();
    const wallet = await world.wallet({ holdUntil: gate.promise });
    const { page, context, close } = await world.open(id, [wallet]);
    const second = await context.newPage();
    await wallet.install(second);
    await second.goto(world.urlOf(id));
    await payButton(page).click();
    await page.getByText("Confirm in").waitFor();
    await payButton(second).click();
    await second.getByText("You are paying in another tab.").waitFor();
    gate.resolve();
    await thanks(page).waitFor({ timeout: PAID_MS });
    await thanks(second).waitFor({ timeout: PAID_MS });
    expect(wallet.calls.filter((method) => method === "eth_signTypedData_v4")).toHaveLength(1);
    expect(await countTransfers(id)).toBe(1);
    await close();
  });

  test("a reload and an API crash while the payment is pending: no second pay button, and thanks in the end", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet();
    const { page, close } = await world.open(id, [wallet]);
    await world.world.kill("worker");
    await payButton(page).click();
    await page.getByText("Please do not pay again.").waitFor();
    await page.reload();
    await page.getByText("Please do not pay again.").waitFor();
    expect(await payButton(page).count()).toBe(0);
    await world.world.kill("api");
    await page.getByText("Connection lost. Reconnecting…").waitFor();
    expect(await payButton(page).count()).toBe(0);
    await world.world.start("api");
    await world.world.start("worker");
    await thanks(page).waitFor({ timeout: PAID_MS });
    expect(wallet.calls.filter((method) => method === "eth_signTypedData_v4")).toHaveLength(1);
    expect(await countTransfers(id)).toBe(1);
    await close();
  }, 120_000);

  test("a transfer whose answer was lost shows no button to pay, is found by its tag, and its payer is not asked again", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({
      losesAnswer: true,
      fails: { eth_signTypedData_v4: 4200 },
    });
    await world.world.kill("indexer");
    const { page, close } = await world.open(id, [wallet]);
    try {
      await payButton(page).click();
      await page.getByRole("button", { name: "Send a transfer instead" }).click();
      // which of the two depends on whether the node shows the transfer before the page is read
      const warning = page.getByText(/^You may already have sent this payment|^A payment has been seen/);
      await warning.waitFor();
      await page.reload();
      await warning.waitFor();
      expect(await payButton(page).count()).toBe(0);
      expect(await page.locator("#ways").isVisible()).toBe(false);
    } finally {
      // the tests that follow need it
      await world.world.start("indexer");
    }
    await page.getByRole("heading", { name: "Paid" }).waitFor({ timeout: PAID_MS });
    expect(wallet.hashes).toHaveLength(1);
    await close();
  });

  test("a link cancelled while it is open loses every way to pay, and its stream is closed", async () => {
    const { id } = await world.makeLink();
    const { page, expectClean, close } = await world.open(id, [await world.wallet()], {
      prepare: async (page) => {
        await page.addInitScript(COUNT_STREAMS);
      },
    });
    await payButton(page).waitFor();
    await waitFor("the stream", async () => (await openStreams(page)) === 1);
    expect((await world.ann.client.post(`/v1/payment-links/${id}/cancel`)).status).toBe(200);
    await page.getByRole("heading", { name: "This link was cancelled" }).waitFor();
    await payButton(page).waitFor({ state: "detached" });
    await page.locator("#ways").waitFor({ state: "detached" });
    await waitFor("its end", async () => (await openStreams(page)) === 0);
    expectClean();
    await close();
  });

  test("a link that expires while it is open counts down and then says so", async () => {
    const { id } = await world.makeLink();
    const end = (seconds: number) => world.world.sql`
      update payment_links
      set created_at = now() - interval '2 days', expires_at = now() + make_interval(secs => ${seconds})
      where id = ${id}`;
    await end(290);
    const { page, close } = await world.open(id, [await world.wallet()]);
    await page.getByText(/^Expires in 4:\d\d$/).waitFor();
    await end(0);
    await page.getByRole("heading", { name: "This link has expired" }).waitFor();
    expect(await payButton(page).count()).toBe(0);
    await close();
  });

  test("a refused stream is replaced by polling", async () => {
    const { id } = await world.makeLink();
    const { page, close } = await world.open(id, [await world.wallet()], {
      prepare: async (page) => {
        await page.route("**/events", (route) => route.fulfill({ status: 429, body: "{}" }));
      },
    });
    await payButton(page).click();
    await thanks(page).waitFor({ timeout: PAID_MS });
    await close();
  });

  test("a hidden page holds no stream, and opens one when it is seen again", async () => {
    const { id } = await world.makeLink();
    const { page, close } = await world.open(id, [], {
      prepare: async (page) => {
        await page.addInitScript(COUNT_STREAMS);
      },
    });
    await waitFor("the stream", async () => (await openStreams(page)) === 1);
    await setHidden(page, true);
    await waitFor("no stream", async () => (await openStreams(page)) === 0);
    await setHidden(page, false);
    await waitFor("a stream again", async () => (await openStreams(page)) === 1);
    await close();
  });

  test("a transfer that fits several links is claimed manually, and proven by its sender's signature", async () => {
    const first = await world.makeLink();
    const second = await world.makeLink(first.amountUnits);
    const wallet = await world.wallet({ chainId: 1 });
    await callRpc(world.rpcUrl, "anvil_impersonateAccount", [wallet.address]);
    const hash = await sendUsdc(world.rpcUrl, wallet.address, world.merchantWallet, second.amountUnits);
    await waitFor("the transfer", async () => {
      const rows = await world.world.sql`select from transfers where tx_hash = ${hash}`;
      return rows.length > 0;
    });
    const { page, close } = await world.open(second.id, [wallet]);
    await page.getByText("Pay manually").click();
    await page.getByText("Sent, but not shown here?").click();
    await page.getByLabel("Transaction hash").fill(hash);
    await page.getByLabel("Sent from address").fill(wallet.address);
    await page.getByRole("button", { name: "Find my payment" }).click();
    await page.getByText("This transfer matches several links.").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Sign with Test Wallet" }).click();
    await page.getByRole("heading", { name: "Paid" }).waitFor({ timeout: PAID_MS });
    expect(await settledBy(second.id)).toBe("proof");
    expect(await world.statusOf(first.id)).toBe("ACTIVE");
    await close();
  });
});

describe.if(isBrowserThere)("several people, or several tabs, and one link", () => {
  test("two concurrent payers: one payment per round, by the one who is thanked", async () => {
    const report = await payTogether(world, 2);
    expect(report.wonByFirst + report.wonBySecond).toBe(2);
  }, 120_000);

  test("with six other tabs open, the seventh loads and pays, and the first one sees it on return", async () => {
    const { id, amountUnits } = await world.makeLink();
    const { page: first, context, close } = await world.open(id);
    await first.getByText("Pay manually").waitFor();
    const tabs = [first];
    for (let tab = 1; tab < 6; tab++) {
      for (const other of tabs) await setHidden(other, true);
      const next = await context.newPage();
      await next.goto(world.urlOf(id));
      tabs.push(next);
    }
    for (const other of tabs) await setHidden(other, true);
    const seventh = await context.newPage();
    const wallet = await world.wallet({ fundsUnits: amountUnits });
    await wallet.install(seventh);
    await seventh.goto(world.urlOf(id));
    await payButton(seventh).click();
    await seventh.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    expect(await paid(first).count()).toBe(0);
    await setHidden(first, false);
    // the same browser paid
    await first.getByText(/^Thank you\./).waitFor();
    expect(wallet.calls.filter((method) => method === "eth_signTypedData_v4")).toHaveLength(1);
    await close();
  }, 120_000);

  test("a manual payment pays its own link although a thief claims its transaction for another link of that amount", async () => {
    const honest = await world.makeLink();
    const thiefs = await world.makeLink(honest.amountUnits);
    const { page, expectClean, close } = await world.open(honest.id);
    await page.getByText("Pay manually").click();
    const amount = (await page.locator("[data-copy]").first().getAttribute("data-copy")) ?? "";
    const units = BigInt(Math.round(Number(amount) * 1e6));
    const payer = await newPayer(world.rpcUrl, units);
    const hash = await sendUsdc(world.rpcUrl, payer, world.merchantWallet, units);
    const stolen = await world.claim(thiefs.id, hash, payer);
    expect([400, 409]).toContain(stolen.status);
    await paid(page).waitFor({ timeout: PAID_MS });
    expect(await world.statusOf(thiefs.id)).toBe("ACTIVE");
    const [row] = await world.world.sql`select settled_by from payment_links where id = ${honest.id}`;
    expect(row).toEqual({ settledBy: "pay_amount" });
    expectClean();
    await close();
  }, 120_000);

  test("a transfer of the plain amount that a thief claimed first goes to the link that its sender signs for", async () => {
    const honest = await world.makeLink();
    const thiefs = await world.makeLink(honest.amountUnits);
    const payer = await newProvingPayer(world.rpcUrl, honest.amountUnits);
    const hash = await sendUsdc(world.rpcUrl, payer.lower, world.merchantWallet, honest.amountUnits);
    await waitFor("the transfer", async () => {
      const rows = await world.world.sql`select from transfers where tx_hash = ${hash}`;
      return rows.length > 0;
    });
    const stolen = await world.claim(thiefs.id, hash, payer.lower);
    expect([stolen.status, stolen.body.proofRequired]).toEqual([200, true]);
    const { page, expectClean, close } = await world.open(honest.id);
    await page.getByText("Pay manually").click();
    await page.getByText("Sent, but not shown here?").click();
    await page.getByLabel("Transaction hash").fill(hash);
    await page.getByLabel("Sent from address").fill(payer.lower);
    await page.getByRole("button", { name: "Find my payment" }).click();
    await page.getByText("This transfer matches several links.").waitFor();
    expect((await world.prove(honest.id, hash, payer)).status).toBe(200);
    await paid(page).waitFor({ timeout: PAID_MS });
    expect(await world.statusOf(thiefs.id)).toBe("ACTIVE");
    expectClean();
    await close();
  }, 120_000);

  test("a link that expires while the wallet asks takes no payment, and the page says so", async () => {
    const { id, amountUnits } = await world.makeLink();
    const gate = Promise.withResolvers<void>();
    const wallet = await world.wallet({ fundsUnits: amountUnits, holdUntil: gate.promise });
    const { page, close } = await world.open(id, [wallet]);
    await payButton(page).click();
    await page.getByText("Confirm in").waitFor();
    await world.world.sql`
      update payment_links
      set created_at = now() - interval '2 days', expires_at = now()
      where id = ${id}`;
    const answered = page.waitForResponse(/\/pay$/);
    gate.resolve();
    expect((await answered).status()).toBe(422);
    await page.getByRole("heading", { name: "This link has expired" }).waitFor();
    expect(await payButton(page).count()).toBe(0);
    expect(await world.world.sql`select 1 from payments where link_id = ${id}`).toHaveLength(0);
    await close();
  }, 120_000);
});
