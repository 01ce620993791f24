/** The dashboard in a real browser, with a passkey of its own: the first run from end to end, and what must not go wrong on the way. */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import { findBarriers, isBrowserThere, type Visit } from "../checkout/browser.ts";
import { randomAddress, until } from "../support/indexer-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import {
  createLinkInBrowser,
  type DashboardWorld,
  signUpInBrowser,
  startDashboardWorld,
  TOO_NARROW_PX,
} from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const SCREENS = [
  ["/links", "Links"],
  ["/transactions", "Transactions"],
  ["/documents", "Documents"],
  ["/statements", "Statements"],
  ["/exports", "Exports"],
  ["/saved-exports", "Saved exports"],
  ["/exchange-rates", "Exchange rates"],
  ["/wallet", "Wallet"],
  ["/send", "Send"],
  ["/payout", "Payout"],
  ["/developers/keys", "API keys"],
  ["/developers/webhooks", "Webhooks"],
  ["/members", "Members"],
  ["/invitations", "Invitations"],
  ["/security", "Security"],
  ["/settings", "Settings"],
] as const;

describe.if(isBrowserThere)("the dashboard", () => {
  let dashboard: DashboardWorld;
  let visit: Visit;
  let page: Page;
  let paidLink: string;
  let sentTo: string;
  const email = newEmail();

  beforeAll(async () => {
    dashboard = await startDashboardWorld();
    // who is not known yet is answered 404 before the account is made; one answer is lost on purpose
    visit = await dashboard.open("/", { allowedErrors: /status of (40[14]|502)/ });
    page = visit.page;
  }, 120_000);
  afterAll(async () => {
    await visit?.close();
    await dashboard?.stop();
  });
  // a test that fails on a phone by night leaves the others a desk by day
  afterEach(async () => {
    await visit?.page.emulateMedia({ colorScheme: "light" });
    await visit?.page.setViewportSize({ width: 1280, height: 800 });
  });

  const button = (name: string) => page.getByRole("button", { name, exact: true });
  const dialog = () => page.getByRole("dialog");
  const go = (name: string) =>
    page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name, exact: true }).click();
  const heading = (name: string) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();

  test("browsers get the page at /, programs get JSON, and the page may load and run nothing else", async () => {
    const { baseUrl } = dashboard.world;
    const forBrowser = await fetch(`${baseUrl}/`, { headers: { accept: "text/html,*/*" } });
    expect(forBrowser.headers.get("content-type")).toStartWith("text/html");
    expect(forBrowser.headers.get("vary")).toContain("accept");
    const policy = forBrowser.headers.get("content-security-policy") ?? "";
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ])
      expect(policy).toContain(rule);
    expect(await forBrowser.text()).not.toMatch(/<script(?![^>]*(src=|application\/json))/);
    for (const accept of ["application/json", "*/*"]) {
      const forProgram = await fetch(`${baseUrl}/`, { headers: { accept } });
      expect(await forProgram.json()).toMatchObject({ openapi: "/openapi.json", version: "v1" });
    }
  });

  test("first run: address, code of the local mailbox, passkey, and the checklist says what is next", async () => {
    await signUpInBrowser(page, email);
    await page.getByRole("heading", { name: "First steps" }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
  });

  test("a link is created, paid with the test wallet in another tab, and its screen updates automatically", async () => {
    paidLink = await createLinkInBrowser(page, "12.5", "Two coffees and a book");
    await page.getByText("Waiting for a payment").waitFor();
    const [checkout] = await Promise.all([
      page.context().waitForEvent("page"),
      page.getByRole("link", { name: "Open and pay" }).click(),
    ]);
    await checkout.getByRole("button", { name: /Test wallet/ }).click();
    await page.locator(".big").getByText("Paid").waitFor();
    await checkout.close();
    expect(await findBarriers(page)).toEqual([]);
  });

  test("it is refunded: what is signed is shown, Enter does not sign, the passkey does, the chain confirms", async () => {
    await button("Refund").click();
    await dialog().getByLabel("Amount", { exact: true }).fill("2.5");
    await dialog().getByRole("button", { name: "Review" }).click();
    const sign = dialog().getByRole("button", { name: "Sign with passkey" });
    await sign.waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await sign.focus();
    await page.keyboard.press("Enter");
    const [before] = await dashboard.world
      .sql`select count(*)::int as signed from wallet_operations where signature is not null`;
    expect(before?.signed).toBe(0);
    await sign.click();
    await dialog().getByText("Confirmed").waitFor();
    await dialog().getByRole("button", { name: "Close" }).last().click();
    await page.getByText("Refunded").first().waitFor();
  });

  test("a send to a new address is warned about, and moves exactly what was typed", async () => {
    const to = randomAddress();
    await go("Send");
    await page.getByLabel("Recipient's address").fill(to);
    await page.getByLabel("Amount", { exact: true }).fill("1.25");
    await button("Review").click();
    await dialog().getByText(`You have never sent to ${to}`).waitFor();
    await dialog().getByRole("button", { name: "Sign with passkey" }).click();
    await dialog().getByText("Confirmed").waitFor();
    expect(await readUsdcBalance(dashboard.world.chain.rpcUrl, to)).toBe(1_250_000n);
    expect(await dialog().getByRole("heading").allTextContents()).toEqual(["Signed"]);
    await dialog().getByRole("button", { name: "Close" }).last().click();
  });

  test("an operation other than the one shown is not signed: the page rebuilds it", async () => {
    const to = randomAddress();
    await page.route("**/v1/wallets/send/prepare", async (route) => {
      const posted = JSON.parse(route.request().postData() ?? "{}");
      const body = JSON.stringify({ ...posted, to: randomAddress() });
      const response = await route.fetch({ postData: body });
      await route.fulfill({ response });
    });
    await page.getByLabel("Recipient's address").fill(to);
    await page.getByLabel("Amount", { exact: true }).fill("1");
    await button("Review").click();
    await dialog().getByRole("button", { name: "Sign with passkey" }).click();
    await dialog().getByText("differs from what is shown here").waitFor();
    await page.unroute("**/v1/wallets/send/prepare");
    const [row] = await dashboard.world
      .sql`select count(*)::int as open from wallet_operations where state not in ('CONFIRMED', 'AWAITING_SIGNATURE')`;
    expect(row?.open).toBe(0);
    await dialog().getByRole("button", { name: "Do not sign" }).click();
  });

  test("a response lost after signing is not a failure: the send is tracked, and not offered again", async () => {
    const to = randomAddress();
    await page.route("**/v1/wallets/send/confirm", async (route) => {
      await route.fetch();
      await route.fulfill({ status: 502, body: "bad gateway", contentType: "text/plain" });
    });
    await page.getByLabel("Recipient's address").fill(to);
    await page.getByLabel("Amount", { exact: true }).fill("0.5");
    await button("Review").click();
    await dialog().getByRole("button", { name: "Sign with passkey" }).click();
    await dialog().getByText("Confirmed").waitFor();
    expect(await dialog().getByRole("button", { name: "Sign with passkey" }).count()).toBe(0);
    expect(await readUsdcBalance(dashboard.world.chain.rpcUrl, to)).toBe(500_000n);
    await page.unroute("**/v1/wallets/send/confirm");
    await dialog().getByRole("button", { name: "Close" }).last().click();
    sentTo = to;
  });

  test("closing the sheet dismisses the passkey prompt: a passkey used afterwards signs nothing", async () => {
    await go("Send");
    await page.getByLabel("Recipient's address").fill(randomAddress());
    await page.getByLabel("Amount", { exact: true }).fill("0.75");
    await button("Review").click();
    const sign = dialog().getByRole("button", { name: "Sign with passkey" });
    await sign.waitFor();
    // a person who has the prompt open and thinks about it
    await page.evaluate(`{
      const get = navigator.credentials.get.bind(navigator.credentials);
      navigator.credentials.get = (options) =>
        new Promise((resolve, reject) => {
          navigator.credentials.get = get;
          globalThis.useThePasskey = () => get(options).then(resolve, reject);
        });
    }`);
    await sign.click();
    await page.waitForFunction("globalThis.useThePasskey !== undefined");
    await dialog().getByRole("button", { name: "Do not sign" }).click();
    await dialog().waitFor({ state: "detached" });
    await page.evaluate("useThePasskey().catch(() => undefined)");
    const stateOf = async () => {
      const [row] = await dashboard.world.sql<{ state: string }[]>`
        select op.state
        from wallet_operations op
        join wallet_operation_items item on item.operation_id = op.id
        where item.amount_units = 750000`;
      return row?.state;
    };
    await until("it is cancelled", async () => (await stateOf()) !== "AWAITING_SIGNATURE");
    expect(await stateOf()).toBe("CANCELLED");
  });

  test("an address that looks like a known one is signed only after a second confirmation", async () => {
    const twin = `${sentTo.slice(0, 8)}${randomAddress().slice(8, 36)}${sentTo.slice(36)}`;
    await page.getByLabel("Recipient's address").fill(twin);
    await page.getByLabel("Amount", { exact: true }).fill("0.1");
    await button("Review").click();
    const sign = dialog().getByRole("button", { name: "Sign with passkey" });
    await dialog()
      .getByText(/looks like/)
      .waitFor();
    expect(await sign.isDisabled()).toBe(true);
    expect(await findBarriers(page)).toEqual([]);
    await dialog()
      .getByLabel(/I have compared every character/)
      .check();
    expect(await sign.isDisabled()).toBe(false);
    await dialog().getByRole("button", { name: "Do not sign" }).click();
    await dialog().waitFor({ state: "hidden" });
    expect(await page.getByLabel("Recipient's address").inputValue()).toBe(twin);
  });

  test("a payout from a table: a faulty line stops it, the corrected one pays everybody with one signature", async () => {
    const [one, other] = [randomAddress(), randomAddress()];
    await go("Payout");
    await page.getByLabel("Recipients").fill(`address,amount,note\n${one},0.25,May\n${other},0.0000001`);
    await page.getByText("Not an amount: use at most 6 decimal places").waitFor();
    expect(await button("Review").isDisabled()).toBe(true);
    await page.getByLabel("Recipients").fill(`address,amount,note\n${one},0.25,May\n${other},0.000001`);
    await button("Review").click();
    await dialog().getByRole("button", { name: "Sign with passkey" }).click();
    await dialog().getByText("Confirmed").waitFor();
    expect(await readUsdcBalance(dashboard.world.chain.rpcUrl, one)).toBe(250_000n);
    expect(await readUsdcBalance(dashboard.world.chain.rpcUrl, other)).toBe(1n);
    await dialog().getByRole("button", { name: "Close" }).last().click();
  });

  test("a webhook is added, its messages are in the log, one is sent again, and a test event arrives", async () => {
    const received: string[] = [];
    const receiver = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0 },
      fetch: async (request) => {
        const isFirst = received.push(((await request.json()) as { type: string }).type) === 1;
        return new Response(isFirst ? "not today" : "thanks", { status: isFirst ? 500 : 200 });
      },
    });
    await go("Webhooks");
    await button("Add endpoint").first().click();
    await dialog().getByLabel("Address of your server").fill(`http://127.0.0.1:${receiver.port}/hook`);
    await dialog().getByRole("button", { name: "Add endpoint" }).click();
    await dialog()
      .getByText(/^whsec_/)
      .waitFor();
    await dialog().getByLabel("I have kept it").check();
    await dialog().getByRole("button", { name: "Done" }).click();
    await go("Overview");
    await createLinkInBrowser(page, "1", "A link that a server hears of");
    await go("Webhooks");
    await button("Log").click();
    const attempts = () => dashboard.world.sql`select from webhook_attempts`;
    await until("the first attempt to be stored", async () => (await attempts()).length > 0);
    await button("Refresh").click();
    await button("Details").first().click();
    await dialog().getByText("500", { exact: true }).waitFor();
    await dialog().getByText("not today").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Send it again" }).click();
    await until("the message sent again", async () => received.length > 1);
    await page.keyboard.press("Escape");
    await button("Send a test event").click();
    await until("the test event", async () => received.includes("webhook.test"));
    await button("Refresh").click();
    await page.getByText("webhook.test", { exact: true }).waitFor();
    await receiver.stop(true);
  });

  test("two tabs share one event stream, and both show a payment", async () => {
    let streams = 0;
    page.context().on("request", (request) => {
      if (request.url().endsWith("/v1/events/stream")) streams += 1;
    });
    await go("Overview");
    const second = await page.context().newPage();
    await second.goto(`${dashboard.world.baseUrl}/links`);
    await second.getByRole("heading", { level: 1, name: "Links" }).waitFor();
    await page.getByRole("link", { name: "New payment link" }).first().click();
    await dialog().getByLabel("Amount", { exact: true }).fill("3");
    await dialog().getByLabel("What for").fill("Seen in both tabs");
    await dialog().getByRole("button", { name: "Create link" }).click();
    await second.getByText("Seen in both tabs").waitFor();
    expect(streams).toBe(0);
    await second.close();
  });

  test("every screen fits 320 pixels without horizontal scrolling, in dark mode, and axe finds no violation", async () => {
    await page.emulateMedia({ colorScheme: "dark" });
    // the colors change at once however deep the element: who wants less motion gets no transition of an inherited color
    expect(await page.evaluate("getComputedStyle(document.querySelector('h1')).color")).toBe(
      "rgb(237, 240, 246)",
    );
    await page.setViewportSize({ width: 320, height: 720 });
    const headers = { accept: "text/html" };
    const start = await (await fetch(`${dashboard.world.baseUrl}/`, { headers })).text();
    for (const [path, name] of SCREENS) {
      const answer = await fetch(`${dashboard.world.baseUrl}${path}`, { headers });
      expect([path, answer.status, await answer.text()]).toEqual([path, 200, start]);
      // as Back and Forward do: the page is the same at every address, and loading it sixteen times is most of the work
      await page.evaluate(`history.pushState(0, "", "${path}"); dispatchEvent(new Event("popstate"))`);
      await heading(name);
      await page.locator(".skeleton").first().waitFor({ state: "hidden" });
      expect([path, await page.evaluate(TOO_NARROW_PX)]).toEqual([path, 0]);
      expect(await findBarriers(page)).toEqual([]);
    }
    await page.setViewportSize({ width: 1280, height: 600 });
    await page.goto(`${dashboard.world.baseUrl}/security`);
    const methods = page.getByRole("region", { name: "Sign-in methods" });
    await methods.getByText("This service is not set up for it.").waitFor();
    expect(await methods.getByRole("button").count()).toBe(0);
    // however low the screen, the way out is on it
    expect((await button("Sign out").boundingBox())?.y).toBeWithin(1, 580);
  });

  test("history filters are kept in the URL: they survive a reload and Back", async () => {
    await go("Transactions");
    await page.getByLabel("What", { exact: true }).selectOption("SEND");
    await page.waitForURL(/types=SEND/);
    await page.reload();
    await page.getByText(/^\d+ transactions?$/).waitFor();
    expect(await page.locator("tbody .number.plus").count()).toBe(0);
    // a refund, two sends, and a payout to two
    expect(await page.locator("tbody .number.minus").count()).toBe(5);
    await page.goBack();
    await page.locator("tbody .number.plus").first().waitFor();
    await page.getByRole("button", { name: /^Payment for Two coffees/ }).click();
    await dialog().getByText("First seen").waitFor();
    await dialog().getByText("the payer's signed authorization").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "hidden" });
  });

  test("an export is made in the background and can be downloaded", async () => {
    await page.getByRole("link", { name: "Export this view" }).click();
    await button("Create the file").click();
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download" }).first().click(),
    ]);
    expect(file.suggestedFilename()).toEndWith(".csv");
  });

  test("when the session has ended, the passkey is asked for over the page, and the typed input is submitted", async () => {
    await go("API keys");
    await button("New API key").first().click();
    await dialog().getByLabel("Name").fill("Shop server");
    await dashboard.world.sql`delete from sessions`;
    // not a click of the pointer: what the page still reads may have opened the prompt before
    await dialog().getByRole("button", { name: "Create key" }).dispatchEvent("click");
    await page.getByText("Your session has ended.").waitFor();
    await button("Use passkey").click();
    await dialog()
      .getByText(/^sk_[\w-]{30,}$/)
      .waitFor();
    await dialog().getByLabel("I have kept it").check();
    await dialog().getByRole("button", { name: "Done" }).click();
    await page.getByText("Shop server").waitFor();
  });

  test("signing out leads to sign-in, and the passkey alone leads back to the same link", async () => {
    await button("Sign out").click();
    await page.getByLabel("E-mail address").waitFor();
    await page.goto(`${dashboard.world.baseUrl}/links/${paidLink}`);
    await page.getByLabel("E-mail address").fill(email);
    await button("Continue").click();
    await heading("Two coffees and a book");
  });

  test("by keyboard alone: n opens a new link, typing does not trigger shortcuts, Escape closes, g and at once t goes", async () => {
    await page.keyboard.press("n");
    await dialog().getByLabel("Amount", { exact: true }).waitFor();
    await page.keyboard.type("7");
    await page.keyboard.press("Tab");
    await page.keyboard.type("nights and tea");
    expect(await dialog().getByLabel("What for").inputValue()).toBe("nights and tea");
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "hidden" });
    await Promise.all([page.keyboard.press("g"), page.keyboard.press("t")]);
    await heading("Transactions");
  });

  test("no error was logged, and nothing was requested from another origin", () => {
    visit.expectClean();
  });
});
