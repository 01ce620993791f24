/** A service that cannot be reached, in a real browser: what is shown is not taken for current, done, or undone. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { newTransactionId } from "../../core/domain/ids.ts";
import { isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { newEmail } from "../support/sign-up.ts";
import { addAuthenticator } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const NO_LIST = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";
/** As a proxy answers for a service that is being restarted. */
const BAD_GATEWAY = { status: 502, contentType: "text/html", body: "<h1>Bad Gateway</h1>" };
const LINKS = "**/v1/payment-links?**";

describe.if(isBrowserThere)("an answer that does not arrive", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;
  let page: Page;

  beforeAll(async () => {
    [world, browser] = await Promise.all([startApiWorld({ env: { TEST_MODE: "1" } }), launchBrowser()]);
    person = await visit(browser, `${world.baseUrl}/`, {
      allowedErrors: /status of (40[14]|409|50[02])|ERR_FAILED/,
      prepare: async (opened) => {
        await opened.addInitScript(NO_LIST);
        await addAuthenticator(opened);
      },
    });
    page = person.page;
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  const button = (name: string) => page.getByRole("button", { name, exact: true });
  const notice = () => page.getByText("The service answered 502.");

  test("to the wallet's setup is made up for by pressing the button again", async () => {
    await page.getByLabel("E-mail address").fill(newEmail());
    await button("Continue").click();
    await button("Read the code from the local mailbox").click();
    await page.route("**/v1/wallets/setup/complete", async (route) => {
      expect((await route.fetch()).status()).toBe(200);
      await route.fulfill(BAD_GATEWAY);
    });
    await button("Create passkey").click();
    await notice().waitFor();
    await page.unroute("**/v1/wallets/setup/complete");
    await button("Create passkey").click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(await world.sql`select from passkeys`).toHaveLength(1);
  });

  test("leaves what was read on the screen with a note, until it is read again without being asked", async () => {
    await page.getByRole("link", { name: "Links", exact: true }).first().click();
    await page.getByText("No links yet").waitFor();
    await page.route(LINKS, (route) => route.fulfill(BAD_GATEWAY));
    const made = await page.request.post(`${world.baseUrl}/v1/payment-links`, {
      data: { amount: 3, description: "Made elsewhere" },
    });
    expect(made.status()).toBe(201);
    await notice().waitFor();
    await page.unroute(LINKS);
    await notice().waitFor({ state: "detached" });
    await page.getByRole("row").getByText("Made elsewhere").waitFor();
  });

  test("from a service that went away while nothing was asked of it is noted too", async () => {
    const outdated = page.getByText("What is shown here may be outdated.");
    // a stream that ends, and then cannot be opened again
    await page.route("**/events/stream", (route) =>
      route.fulfill({ contentType: "text/event-stream", body: ": end\n\n" }),
    );
    await page.reload();
    await page.getByRole("row").getByText("Made elsewhere").waitFor();
    await page.unroute("**/events/stream");
    await page.route("**/v1/**", (route) => route.abort());
    await outdated.first().waitFor();
    await page.unroute("**/v1/**");
    await outdated.first().waitFor({ state: "detached" });
  });

  test("to signing out is no sign-out: the page stays and says so", async () => {
    await page.route("**/v1/auth/logout", (route) => route.fulfill(BAD_GATEWAY));
    await button("Sign out").click();
    await notice().waitFor();
    await page.getByText("You may still be signed in on this device.").waitFor();
    expect(await page.getByRole("navigation", { name: "Screens" }).isVisible()).toBe(true);
    expect(await world.sql`select from sessions`).not.toHaveLength(0);
    await page.unroute("**/v1/auth/logout");
  });

  test("is explained for a send that was not sent in time", async () => {
    await world.sql`
      insert into transactions (id, owner, network, type, status, amount_units, counterparty, failure_reason, detected_at)
      select
        ${newTransactionId()}, owner_key(id), 'base-sepolia', 'SEND', 'FAILED', 1250000, decode(repeat('5a', 20), 'hex'), 'NOT_SENT', now()
      from users`;
    await page.goto(`${world.baseUrl}/transactions`);
    await page.getByRole("row").nth(1).getByRole("button").click();
    await page.getByRole("dialog").getByText("It could not be sent in time. Nothing moved.").waitFor();
    await page.keyboard.press("Escape");
  });

  test("to signing out leads to sign-in once it arrives when it is tried again", async () => {
    await page.route("**/v1/auth/logout", (route) => route.fulfill(BAD_GATEWAY));
    await button("Sign out").click();
    await notice().waitFor();
    await page.unroute("**/v1/auth/logout");
    await button("Try again").click();
    await page.getByLabel("E-mail address").waitFor();
    expect(await world.sql`select from sessions`).toHaveLength(0);
    person.expectClean();
  });
});
