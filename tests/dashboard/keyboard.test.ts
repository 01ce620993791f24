/** The dashboard by keyboard: where the focus is after a dialog and during an action. And what a merchant sees of a link that takes no more payments. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { findBarriers, isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { newEmail } from "../support/sign-up.ts";
import { addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const NO_LIST = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";
const FOCUSED_TEXT = "document.activeElement.textContent";

describe.if(isBrowserThere)("the dashboard by keyboard", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;
  let page: Page;

  beforeAll(async () => {
    [world, browser] = await Promise.all([
      startApiWorld({ env: { TEST_MODE: "1", TRUSTED_PROXIES: "127.0.0.1,::1" } }),
      launchBrowser(),
    ]);
    person = await visit(browser, `${world.baseUrl}/`, {
      allowedErrors: /status of (40[14]|50[02])/,
      prepare: async (opened) => {
        await opened.addInitScript(NO_LIST);
        await addAuthenticator(opened);
      },
    });
    page = person.page;
    await signUpInBrowser(page, newEmail());
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  const dialog = () => page.getByRole("dialog");
  const makeLink = async (fields: Record<string, unknown>): Promise<string> => {
    const data = { amount: 3, description: "By keyboard", ...fields };
    const made = await page.request.post(`${world.baseUrl}/v1/payment-links`, { data });
    expect(made.status()).toBe(201);
    return (await made.json()).id;
  };
  const openCancel = async (id: string) => {
    await page.goto(`${world.baseUrl}/links/${id}`);
    await page.getByRole("button", { name: "Cancel link" }).focus();
    await page.keyboard.press("Enter");
    await dialog().waitFor();
  };

  test("a closed dialog returns the focus to the button that opened it, by Escape and by its own button", async () => {
    const id = await makeLink({});
    await openCancel(id);
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
    expect(await page.evaluate(FOCUSED_TEXT)).toBe("Cancel link");
    await page.keyboard.press("Enter");
    await dialog().getByRole("button", { name: "Keep it" }).focus();
    await page.keyboard.press("Enter");
    await dialog().waitFor({ state: "detached" });
    expect(await page.evaluate(FOCUSED_TEXT)).toBe("Cancel link");
  });

  test("a button that works keeps the focus, does not act twice, and has the focus after a failure", async () => {
    const id = await makeLink({});
    await openCancel(id);
    const gate = Promise.withResolvers<void>();
    let requests = 0;
    await page.route("**/cancel", async (route) => {
      requests += 1;
      await gate.promise;
      await route.fulfill({ status: 502, contentType: "text/plain", body: "bad gateway" });
    });
    await dialog().getByRole("button", { name: "Cancel link" }).focus();
    await page.keyboard.press("Enter");
    await dialog().locator("[aria-busy=true]").waitFor();
    await page.keyboard.press("Enter");
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    expect(await page.evaluate(FOCUSED_TEXT)).toBe("Cancel link");
    gate.resolve();
    await dialog().getByRole("alert").waitFor();
    expect(await page.evaluate(FOCUSED_TEXT)).toBe("Cancel link");
    expect(requests).toBe(1);
    await page.unroute("**/cancel");
    await page.keyboard.press("Enter");
    await page.getByText("Cancelled", { exact: true }).first().waitFor();
  });

  test("no shortcut works behind an open dialog, wherever the focus is", async () => {
    await openCancel(await makeLink({}));
    await page.evaluate("document.activeElement.blur()");
    const place = page.url();
    for (const key of ["n", "?", "g", "t"]) await page.keyboard.press(key);
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    expect([page.url(), await dialog().count()]).toEqual([place, 1]);
    await page.keyboard.press("Escape");
  });

  test("the box with a text to copy by hand returns the focus to its button, copied or not", async () => {
    const id = await makeLink({});
    await page.goto(`${world.baseUrl}/links/${id}`);
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    const copy = page.getByRole("button", { name: "Copy the link" }).first();
    const isFocused = () => copy.evaluate((element) => element.matches(":focus"));
    const box = page.getByRole("textbox", { name: "Copy the link" });
    for (const key of ["Control+C", "Escape"]) {
      await copy.focus();
      await page.keyboard.press("Enter");
      // its text is selected as it gets the focus, after it is drawn
      await box.and(page.locator(":focus")).waitFor();
      expect(await page.evaluate("document.getSelection().toString()")).toEndWith(id);
      await page.keyboard.press(key);
      await box.waitFor({ state: "detached" });
      expect([key, await isFocused()]).toEqual([key, true]);
    }
  });

  test("a link that takes no more payments is marked in lists, on the overview and on its own screen", async () => {
    const id = await makeLink({ maxPayments: 2, description: "Two tickets" });
    const row = page.getByRole("row").filter({ hasText: "Two tickets" });
    const stranger = openClient(world.baseUrl);
    // a place that one address took beyond its first is free for others
    const use = (address: string) =>
      stranger.post(`/api/v1/public/payment-links/${id}/uses`, {}, { "x-forwarded-for": address });
    await use("203.0.113.1");
    await page.goto(`${world.baseUrl}/links`);
    await row.getByText("Open", { exact: true }).waitFor();
    await use("203.0.113.2");
    for (const path of ["/links?status=ACTIVE", "/"]) {
      await page.goto(`${world.baseUrl}${path}`);
      await row.getByText("Used up", { exact: true }).waitFor();
      expect(await row.getByText("Open", { exact: true }).count()).toBe(0);
    }
    await page.goto(`${world.baseUrl}/links/${id}`);
    await page.locator(".big").getByText("Used up", { exact: true }).waitFor();
    await page.getByText("no new one can begin").waitFor();
    expect(await page.getByRole("img", { name: "QR code" }).count()).toBe(0);
    expect(await findBarriers(page)).toEqual([]);
    person.expectClean();
  });
});
