/** Sheets that ask for a signature and are left without one, whichever way: nothing is signed afterwards, and nothing stays reserved. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { isBrowserThere, type Visit } from "../checkout/browser.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { waitFor } from "../support/relay-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import {
  addAuthenticator,
  type DashboardWorld,
  signUpInBrowser,
  startDashboardWorld,
} from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const FUNDS_UNITS = 20_000_000n;
/** A person who has the browser's prompt open and thinks about it. */
const HOLD_PROMPT = `{
  const get = navigator.credentials.get.bind(navigator.credentials);
  globalThis.useThePasskey = undefined;
  navigator.credentials.get = (options) =>
    new Promise((resolve, reject) => {
      navigator.credentials.get = get;
      globalThis.useThePasskey = () => get(options).then(resolve, reject);
    });
}`;

describe.if(isBrowserThere)("a sheet that is left unsigned", () => {
  let dashboard: DashboardWorld;
  let visit: Visit;
  let page: Page;

  beforeAll(async () => {
    dashboard = await startDashboardWorld();
    visit = await dashboard.open("/", { allowedErrors: /status of (401|409|502)/ });
    page = visit.page;
    await signUpInBrowser(page, newEmail());
    await dashboard.fund(page, FUNDS_UNITS);
  }, 240_000);
  afterAll(async () => {
    await visit?.close();
    await dashboard?.stop();
  });

  const LOST = { status: 502, contentType: "text/plain", body: "bad gateway" };
  const button = (name: string) => page.getByRole("button", { name, exact: true });
  const dialog = () => page.getByRole("dialog");
  const sign = () => dialog().getByRole("button", { name: "Sign with passkey" });
  const openPrompt = async () => {
    await page.evaluate(HOLD_PROMPT);
    await sign().click();
    await waitFor("the prompt", () => page.evaluate<boolean>("globalThis.useThePasskey !== undefined"));
  };
  const newestState = async () => {
    const [row] = await dashboard.world.sql<{ state: string }[]>`
      select state from wallet_operations order by created_at desc limit 1`;
    return row?.state;
  };
  const review = async (amount: string) => {
    await page.getByLabel("Recipient's address").fill(randomAddress());
    await page.getByLabel("Amount", { exact: true }).fill(amount);
    await button("Review").click();
    await sign().waitFor();
  };

  test("shows an amount that was typed with a decimal comma as the number that is signed", async () => {
    await page.goto(`${dashboard.world.baseUrl}/send`);
    await review(" 1,25 ");
    expect(await dialog().locator(".to-sign .amount").textContent()).toBe("1.25");
    expect(await dialog().locator(".facts strong").textContent()).toBe("1.25 USDC");
    await button("Do not sign").click();
    await waitFor("it is cancelled", async () => (await newestState()) === "CANCELLED");
  });

  test("by the browser's Back aborts the passkey prompt and releases what was reserved", async () => {
    await page.goto(dashboard.world.baseUrl);
    await page.getByRole("link", { name: "Send", exact: true }).first().click();
    await review("0.75");
    await openPrompt();
    await page.goBack();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.evaluate("useThePasskey().catch(() => undefined)");
    await waitFor("it is decided", async () => (await newestState()) !== "AWAITING_SIGNATURE");
    expect(await newestState()).toBe("CANCELLED");
  });

  /** As from a proxy that gives up on the service: 502, while the request itself is kept until it is let through. */
  async function loseConfirmation(path = "**/send/confirm"): Promise<() => Promise<number>> {
    let letThrough = (): Promise<number> => Promise.reject(new Error("nothing was confirmed"));
    await page.route(path, async (route) => {
      const request = route.request();
      const options = { data: request.postDataJSON(), headers: { origin: dashboard.world.baseUrl } };
      letThrough = async () => (await page.request.post(request.url(), options)).status();
      await route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad Gateway</h1>" });
    });
    await sign().click();
    await dialog().getByText("The service answered 502.").waitFor();
    await page.unroute(path);
    return () => letThrough();
  }

  test("whose signature was not answered follows it if it arrived", async () => {
    await page.goto(`${dashboard.world.baseUrl}/send`);
    await review("0.35");
    const letThrough = await loseConfirmation();
    expect(await letThrough()).toBe(202);
    await button("Do not sign").click();
    await dialog().getByText("Confirmed").waitFor();
    await dialog().getByRole("button", { name: "Close" }).last().click();
    await dialog().waitFor({ state: "detached" });
    expect(await page.getByLabel("Amount", { exact: true }).inputValue()).toBe("");
  });

  test("whose signature was not answered closes once it can no longer arrive, and keeps the form", async () => {
    await page.goto(`${dashboard.world.baseUrl}/send`);
    await review("0.45");
    const letThrough = await loseConfirmation();
    await button("Do not sign").click();
    await dialog().waitFor({ state: "detached" });
    expect(await letThrough()).toBe(409);
    expect(await newestState()).toBe("CANCELLED");
    expect(await page.getByLabel("Amount", { exact: true }).inputValue()).toBe("0.45");
  });

  test("whose signature was not answered is closed by Escape while the service is away, and does not close the next one", async () => {
    await page.goto(`${dashboard.world.baseUrl}/send`);
    await review("0.55");
    await loseConfirmation();
    await page.route("**/v1/wallets/sends/*", (route) => route.fulfill(LOST));
    await page.route("**/v1/wallets/sends/*/cancel", (route) => route.fulfill(LOST));
    await page.keyboard.press("Escape");
    await dialog().getByText("It is signed and may be on its way: do not send it again.").waitFor();
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
    expect(await page.getByLabel("Amount", { exact: true }).inputValue()).toBe("");
    await review("0.65");
    await page.unroute("**/v1/wallets/sends/*/cancel");
    let isCancelled = false;
    const readAgain = page.waitForResponse((answer) => {
      const wasCancelled = isCancelled;
      isCancelled ||= answer.url().endsWith("/cancel") && answer.status() === 200;
      return wasCancelled && /\/sends\/\w+$/.test(answer.url());
    });
    await page.unroute("**/v1/wallets/sends/*");
    await readAgain;
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    expect(await sign().isVisible()).toBe(true);
    await sign().click();
    await dialog().getByText("Confirmed").waitFor();
    await dialog().getByRole("button", { name: "Close" }).last().click();
  });

  test("for a new owner whose signature was not answered follows it if it arrived", async () => {
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await makeSecondPasskey();
    const letThrough = await loseConfirmation("**/owners/confirm");
    expect(await letThrough()).toBe(202);
    await button("Do not sign").click();
    await dialog().getByText("Confirmed").waitFor();
    await button("Do not sign").waitFor({ state: "detached" });
  });

  /** Presses "Do not sign", which reads the change after its cancellation. */
  const cancelAndRead = async () => {
    const read = page.waitForResponse(/owners\/changes\/[^/]+$/);
    await button("Do not sign").click();
    await read;
    await dialog().locator(".main[aria-busy=true]").waitFor({ state: "detached" });
  };

  test("for a new owner whose cancellation was not answered either stays open, and follows what arrives", async () => {
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await makeSecondPasskey();
    const letThrough = await loseConfirmation("**/owners/confirm");
    await page.route("**/owners/changes/**", (route) => route.fulfill(LOST));
    await cancelAndRead();
    await page.unroute("**/owners/changes/**");
    await page.route("**/owners/changes/*/cancel", (route) => route.fulfill(LOST));
    await cancelAndRead();
    await dialog().getByText("Your signature has not arrived yet.").waitFor();
    expect(await newestState()).toBe("AWAITING_SIGNATURE");
    expect(await letThrough()).toBe(202);
    await cancelAndRead();
    await dialog().getByText("Confirmed").waitFor();
    await button("Do not sign").waitFor({ state: "detached" });
    await page.unroute("**/owners/changes/*/cancel");
  });

  test("for a new owner closes once a cancellation that was repeated has arrived", async () => {
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await makeSecondPasskey();
    const letThrough = await loseConfirmation("**/owners/confirm");
    await page.route("**/owners/changes/*/cancel", (route) => route.fulfill(LOST));
    await cancelAndRead();
    await page.unroute("**/owners/changes/*/cancel");
    await button("Do not sign").click();
    await dialog().waitFor({ state: "detached" });
    expect(await newestState()).toBe("CANCELLED");
    expect(await letThrough()).toBe(409);
  });

  test("for a new owner can be closed while the service is away, and is cancelled when it is back", async () => {
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await makeSecondPasskey();
    const letThrough = await loseConfirmation("**/owners/confirm");
    await page.route("**/owners/changes/**", (route) => route.fulfill(LOST));
    expect(await button("Close anyway").count()).toBe(0);
    for (let times = 0; times < 2; times++) {
      const read = page.waitForResponse(/owners\/changes\/[^/]+$/);
      await page.keyboard.press("Escape");
      await read;
      await dialog().locator(".main[aria-busy=true]").waitFor({ state: "detached" });
      await dialog().getByText("the change takes effect").waitFor();
    }
    await button("Close anyway").click();
    await dialog().waitFor({ state: "detached" });
    expect(await newestState()).toBe("AWAITING_SIGNATURE");
    await page.unroute("**/owners/changes/**");
    await waitFor("it is cancelled", async () => (await newestState()) === "CANCELLED");
    expect(await letThrough()).toBe(409);
    await button("Add a passkey").click();
    await dialog().getByLabel("Name of the passkey").waitFor();
    await page.keyboard.press("Escape");
  });

  test("for a new owner that was closed leaves the next sheet open when its cancellation is answered", async () => {
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await makeSecondPasskey();
    await loseConfirmation("**/owners/confirm");
    const released = Promise.withResolvers<void>();
    await page.route("**/owners/changes/*/cancel", async (route) => {
      await released.promise;
      await route.continue();
    });
    const asked = page.waitForRequest(/owners\/changes\/[^/]+\/cancel$/);
    await page.keyboard.press("Escape");
    await asked;
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
    await button("Add a passkey").click();
    const name = dialog().getByLabel("Name of the passkey");
    await name.waitFor();
    const read = page.waitForResponse(/owners\/changes\/[^/]+$/);
    released.resolve();
    await read;
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    expect(await name.isVisible()).toBe(true);
    await page.unroute("**/owners/changes/*/cancel");
    await page.keyboard.press("Escape");
  });

  test("shows and signs the lines of a payout that were reviewed, not those edited since", async () => {
    await page.goto(`${dashboard.world.baseUrl}/payout`);
    const lines = page.getByLabel("Recipients");
    await lines.fill(`${randomAddress()}, 0.15`);
    await page.route("**/send/prepare", async (route) => {
      await lines.fill(`${randomAddress()}, 0.16`);
      await route.continue();
    });
    await button("Review").click();
    await sign().waitFor();
    await page.unroute("**/send/prepare");
    expect(await dialog().locator(".to-sign .amount").textContent()).toBe("0.15");
    await sign().click();
    await dialog().getByText("Confirmed").waitFor();
  });

  test("for a new owner aborts the passkey prompt: a passkey used afterwards adds no owner", async () => {
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await makeSecondPasskey();
    await openPrompt();
    await button("Do not sign").click();
    await dialog().waitFor({ state: "detached" });
    await page.evaluate("useThePasskey().catch(() => undefined)");
    await waitFor("it is decided", async () => (await newestState()) !== "AWAITING_SIGNATURE");
    expect(await newestState()).toBe("CANCELLED");
  });

  test("is not shown for a signed owner change whose progress cannot be read", async () => {
    await page.goto(`${dashboard.world.baseUrl}/wallet`);
    await makeSecondPasskey();
    await page.route("**/v1/wallets/owners/changes/*", (route) =>
      route.fulfill({ status: 502, body: "bad gateway", contentType: "text/plain" }),
    );
    await sign().click();
    await sign().waitFor({ state: "detached" });
    await button("Do not sign").waitFor({ state: "detached" });
    await page.unroute("**/v1/wallets/owners/changes/*");
    await dialog().getByText("Confirmed").waitFor();
  });

  async function makeSecondPasskey(): Promise<void> {
    const first = dashboard.authenticatorOf(page);
    await first.setPresence(false);
    const second = await addAuthenticator(page, { transport: "usb" });
    await button("Add a passkey").click();
    await dialog().getByLabel("Name of the passkey").fill("Key in the safe");
    await button("Create passkey").click();
    await sign().waitFor();
    await second.remove();
    await first.setPresence(true);
  }

  test("a page after the last one of the history says so, and leads to the first", async () => {
    await page.goto(`${dashboard.world.baseUrl}/transactions?page=99`);
    await page.getByRole("heading", { name: "There is no such page" }).waitFor();
    expect(await page.getByRole("navigation", { name: "Pages" }).count()).toBe(0);
    await button("First page").click();
    await page.getByRole("table").waitFor();
  });
});
