/**
 * What a payer sees between two attempts: a first one given up, a second click or tab, a transfer that fails, and another payer's
 * payment while the wallet prompts. Each must lead on, and none to a second payment.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { callRpc } from "../../local/chain/rpc.ts";
import tr from "../../web/messages/tr.json" with { type: "json" };
import { waitFor } from "../links/payer-side.ts";
import { newProvingPayer, sendUsdc } from "../links/payers.ts";
import { isBrowserThere } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";

const PAID_MS = 60_000;
/** Of what must not happen, there is no event to wait for. */
const NOTHING_HAPPENS_MS = 1_000;
const BAD_REQUEST = /400 \(Bad Request\)/;
const DECLINES_SIGNING = { declines: { method: "eth_signTypedData_v4", times: 9 } } as const;

let world: CheckoutWorld;
beforeAll(async () => {
  if (isBrowserThere) world = await startCheckoutWorld();
}, 120_000);
afterAll(() => world?.stop());

const panel = (page: Page) => page.locator("#pay");
const payWith = (page: Page, wallet = "Test Wallet") =>
  page.getByRole("button", { name: `Pay with ${wallet}` });
const thanks = (page: Page) => page.getByText(/^Thank you\./);
const never = () => new Promise(() => {});

/** Chooses the transfer after a declined signature. */
async function sendTransfer(page: Page): Promise<void> {
  await payWith(page).click();
  await page.getByRole("button", { name: "Send a transfer instead" }).click();
}

describe.if(isBrowserThere)("the payment page", () => {
  test("started over while a wallet never answers, is paid with another one", async () => {
    const { id } = await world.makeLink();
    const silent = await world.wallet({ name: "Silent", holdUntil: never() });
    const other = await world.wallet({ name: "Other" });
    const { page, expectClean, close } = await world.open(id, [silent, other]);
    await payWith(page, "Silent").click();
    await page.getByText("Confirm in Silent").waitFor();
    await page.getByRole("button", { name: "Start over" }).click();
    await payWith(page, "Other").click();
    await thanks(page).waitFor({ timeout: PAID_MS });
    expectClean();
    await close();
  });

  test("started over while the wallet connects, asks that wallet for nothing further", async () => {
    const { id } = await world.makeLink();
    const gate = Promise.withResolvers<void>();
    const wallet = await world.wallet(DECLINES_SIGNING);
    const { page, expectClean, close } = await world.open(id, [wallet]);
    await payWith(page).click();
    await page.getByText("You declined in Test Wallet.").waitFor();
    wallet.options.connectsAfter = gate.promise;
    const connections = () => wallet.calls.filter((method) => method === "eth_requestAccounts").length;
    expect(connections()).toBe(1);
    await page.getByRole("button", { name: "Send a transfer instead" }).click();
    // the page offers to start over before its request has reached the wallet
    await waitFor("the wallet to be asked", async () => connections() === 2);
    await page.getByRole("button", { name: "Start over" }).click();
    const asked = wallet.calls.filter((method) => method !== "eth_chainId");
    gate.resolve();
    await page.waitForTimeout(NOTHING_HAPPENS_MS);
    expect(wallet.calls.filter((method) => method !== "eth_chainId")).toEqual(asked);
    expect(await payWith(page).isVisible()).toBe(true);
    expectClean();
    await close();
  });

  test("started over while it checks that the link is still open, sends nothing", async () => {
    const { id } = await world.makeLink();
    const gate = Promise.withResolvers<void>();
    const wallet = await world.wallet(DECLINES_SIGNING);
    const { page, expectClean, close } = await world.open(id, [wallet]);
    await payWith(page).click();
    await page.getByText("You declined in Test Wallet.").waitFor();
    const isRead = page.waitForRequest("**/data");
    await page.route("**/data", async (route) => {
      await gate.promise;
      await route.continue();
    });
    await page.getByRole("button", { name: "Send a transfer instead" }).click();
    await isRead;
    await page.getByRole("button", { name: "Start over" }).click();
    gate.resolve();
    await page.waitForTimeout(NOTHING_HAPPENS_MS);
    expect(wallet.calls).not.toContain("eth_sendTransaction");
    expect(await payWith(page).isVisible()).toBe(true);
    expectClean();
    await close();
  });

  test("clicked twice, asks for one signature and pays", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet();
    const { page, close } = await world.open(id, [wallet]);
    await payWith(page).waitFor();
    await page.evaluate(
      `{ const button = document.querySelector("#pay button"); button.click(); button.click(); }`,
    );
    await thanks(page).waitFor({ timeout: PAID_MS });
    expect(wallet.calls.filter((method) => method === "eth_signTypedData_v4")).toHaveLength(1);
    await close();
  });

  test("in a second tab, can be paid once the first tab has given up", async () => {
    const { id } = await world.makeLink();
    const gate = Promise.withResolvers<void>();
    const wallet = await world.wallet({ connectsAfter: gate.promise });
    const { page, context, close } = await world.open(id, [wallet]);
    const second = await context.newPage();
    await wallet.install(second);
    await second.goto(world.urlOf(id));
    await payWith(page).click();
    await page.getByText("Connect in Test Wallet").waitFor();
    await payWith(second).click();
    await second.getByText("You are paying in another tab.").waitFor();
    await page.close();
    gate.resolve();
    await payWith(second).click();
    await thanks(second).waitFor({ timeout: PAID_MS });
    await close();
  });

  test("tells a payer whose wallet still prompts for a transfer that another payer is paying", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ ...DECLINES_SIGNING, holdUntil: never() });
    const { page, expectClean, close } = await world.open(id, [wallet]);
    await sendTransfer(page);
    await page.getByText("Confirm in Test Wallet").waitFor();
    const shown = (await world.ann.client.get(`/api/v1/public/payment-links/${id}/data`)).body;
    const held = JSON.stringify({ ...shown, status: "PENDING", payable: false });
    await page.route("**/events", (route) =>
      route.fulfill({ contentType: "text/event-stream", body: `event: status\ndata: ${held}\n\n` }),
    );
    // a page that is seen again opens a new stream
    await page.evaluate(`document.dispatchEvent(new Event("visibilitychange"))`);
    await page.getByText("Please do not pay again.").waitFor();
    expectClean();
    await close();
  });

  test("does not show a reverted transfer as pending, and lets its payer try again", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ ...DECLINES_SIGNING, gas: 35_000n });
    const { page, expectClean, close } = await world.open(id, [wallet], { allowedErrors: BAD_REQUEST });
    await sendTransfer(page);
    await page.getByText("Check your wallet before you pay again.").waitFor();
    expect(wallet.hashes).toHaveLength(1);
    await page.reload();
    await page.getByText("Check your wallet before you pay again.").waitFor();
    await page.getByRole("button", { name: "I have not sent it" }).click();
    await payWith(page).waitFor();
    expectClean();
    await close();
  });

  test("does not show a transfer that never reached a block as pending", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ ...DECLINES_SIGNING, neverSends: true });
    const { page, expectClean, close } = await world.open(id, [wallet]);
    await sendTransfer(page);
    await page.getByText("Your payment is on its way").waitFor();
    await world.waitForStatus(id, "PENDING");
    await world.world.sql`update claims set lease_until = now() where link_id = ${id}`;
    await page.getByText("Check your wallet before you pay again.").waitFor();
    expect(await world.statusOf(id)).toBe("ACTIVE");
    expectClean();
    await close();
  });

  test("sends no transfer from a wallet that was moved to another network while it asked", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ ...DECLINES_SIGNING, movesWhileAsking: true });
    const { page, close } = await world.open(id, [wallet]);
    await sendTransfer(page);
    await page.getByText("The wallet is still not on Base Sepolia. Nothing was sent.").waitFor();
    expect(wallet.hashes).toEqual([]);
    await close();
  });

  test("names the network to a wallet that was moved to another one while it asked for a signature, and pays after it", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ movesWhileAsking: true });
    const { page, close } = await world.open(id, [wallet], { query: "?lang=tr" });
    const pay = page.getByRole("button", { name: /ile öde/ });
    await pay.click();
    await page.getByText(tr.wrongNetwork.replace("{network}", "Base Sepolia")).waitFor();
    wallet.options.movesWhileAsking = false;
    await pay.click();
    await world.waitForStatus(id, "PAID");
    expect(wallet.calls).toContain("wallet_switchEthereumChain");
    await close();
  });

  test("shows the exact balance of a wallet that is a millionth short", async () => {
    const { id } = (await world.ann.client.post("/v1/payment-links", { amount: 1, description: "Tea" })).body;
    const wallet = await world.wallet({ fundsUnits: 999_999n });
    const { page, close } = await world.open(id, [wallet]);
    await payWith(page).click();
    await page.getByText("This wallet holds 0.999999 USDC, but 1.00 USDC is needed.").waitFor();
    await close();
  });

  test("says in its own language why the service refused a payment", async () => {
    const { id, amountUnits } = await world.makeLink();
    const gate = Promise.withResolvers<void>();
    const wallet = await world.wallet({ fundsUnits: amountUnits, holdUntil: gate.promise });
    const { page, close } = await world.open(id, [wallet], {
      query: "?lang=tr",
      allowedErrors: /422 \(Unprocessable/,
    });
    await page.locator("#pay button").click();
    // prompted for the signature, so past the page's own check of the balance
    await page.getByText(tr.confirm.replace("{wallet}", "Test Wallet")).waitFor();
    await callRpc(world.rpcUrl, "anvil_impersonateAccount", [wallet.address]);
    await sendUsdc(world.rpcUrl, wallet.address, `0x${"d".repeat(40)}`, amountUnits);
    gate.resolve();
    await page.getByText(tr.refusedBecause.replace("{reason}", "cüzdanda yeterli USDC yok")).waitFor();
    await close();
  });

  test("does not say that nothing was sent when another transaction has used up the signature", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ usesUpSigned: true });
    const { page, close } = await world.open(id, [wallet], { allowedErrors: /409 \(Conflict\)/ });
    await payWith(page).click();
    await page.getByText("You may already have sent this payment").waitFor({ timeout: PAID_MS });
    expect(await panel(page).getByText("Nothing was sent").count()).toBe(0);
    expect(await payWith(page).count()).toBe(0);
    await page.reload();
    await page.getByText("You may already have sent this payment").waitFor({ timeout: PAID_MS });
    await page.getByRole("button", { name: "I have not sent it" }).click();
    await payWith(page).waitFor();
    await close();
  });

  test("treats a response that is not the service's as none, and retries with the same bytes", async () => {
    const { id } = await world.makeLink();
    const strange = [
      { status: 403, contentType: "text/html", body: "<h1>Are you human?</h1>" },
      { status: 200, contentType: "text/html", body: "<h1>Welcome to our network</h1>" },
    ];
    const { page, close } = await world.open(id, [await world.wallet()], {
      allowedErrors: /403 \(Forbidden\)/,
      prepare: async (page) => {
        await page.route("**/v1/x402/*/pay", (route) => {
          const answer = strange.shift();
          return answer ? route.fulfill(answer) : route.continue();
        });
      },
    });
    await payWith(page).click();
    await thanks(page).waitFor({ timeout: PAID_MS });
    expect(await panel(page).getByText("not accepted").count()).toBe(0);
    await close();
  });

  test("that gets no response is submitted again with the same bytes, and offers no second payment meanwhile", async () => {
    const { id } = await world.makeLink();
    const bodies: (string | null)[] = [];
    const { page, close } = await world.open(id, [await world.wallet()], {
      prepare: async (page) => {
        await page.clock.install();
        // the first request is never answered
        await page.route("**/v1/x402/*/pay", async (route) => {
          if (bodies.push(route.request().postData()) > 1) await route.continue();
        });
      },
    });
    await payWith(page).click();
    while (bodies.length === 0) await Bun.sleep(20);
    expect(await payWith(page).count()).toBe(0);
    await page.clock.fastForward(31_000);
    expect(await payWith(page).count()).toBe(0);
    await thanks(page).waitFor({ timeout: PAID_MS });
    expect(bodies).toEqual([bodies[0] ?? "", bodies[0] ?? ""]);
    await close();
  });

  test("a claim of a transaction that does not pay the link is refused with an explanation", async () => {
    const { id, amountUnits } = await world.makeLink();
    const stranger = await newProvingPayer(world.rpcUrl, amountUnits);
    const hash = await sendUsdc(world.rpcUrl, stranger.lower, stranger.lower, 1n);
    const { page, close } = await world.open(id);
    await page.getByText("Pay manually").click();
    await page.getByText("Sent, but not shown here?").click();
    await page.getByLabel("Transaction hash").fill(hash);
    await page.getByLabel("Sent from address").fill(stranger.lower);
    const released = Promise.withResolvers<void>();
    await page.route("**/complete", async (route) => {
      await released.promise;
      await route.continue();
    });
    const find = page.getByRole("button", { name: "Find my payment" });
    await find.click();
    // a payer who presses again on a slow network would use up the claims of an hour
    await waitFor("it waits", () => find.isDisabled());
    released.resolve();
    await page.getByText("This transaction does not pay this link.").waitFor();
    expect(await find.isDisabled()).toBe(false);
    expect(await world.statusOf(id)).toBe("ACTIVE");
    await close();
  });
});
