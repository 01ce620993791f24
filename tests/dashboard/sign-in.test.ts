/** The way in, in a real browser: the browser's own list of passkeys, and addresses that lead nowhere. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { findBarriers, isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { waitFor } from "../support/relay-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import { type Authenticator, addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const HTML = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

/** Counts requests of passkeys, a moment after the page made them: the browser opens its list then, and nothing tells the page. */
const COUNT_LISTS = `
  const get = navigator.credentials.get.bind(navigator.credentials);
  globalThis.lists = 0;
  navigator.credentials.get = (request) => {
    setTimeout(() => { globalThis.lists += 1; }, 300);
    return get(request);
  };
`;

const codeOf = async (answer: Response) => ((await answer.json()) as { error: { code: string } }).error.code;

describe.if(isBrowserThere)("the way into the dashboard", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;
  let page: Page;
  let authenticator: Authenticator;
  const email = newEmail();
  const options: unknown[] = [];

  beforeAll(async () => {
    [world, browser] = await Promise.all([startApiWorld({ env: { TEST_MODE: "1" } }), launchBrowser()]);
    person = await visit(browser, `${world.baseUrl}/`, {
      allowedErrors: /status of 40[14]/,
      prepare: async (opened) => {
        opened.on("request", (request) => {
          if (request.url().endsWith("/v1/auth/options")) options.push(request.postDataJSON());
        });
        await opened.addInitScript(COUNT_LISTS);
        authenticator = await addAuthenticator(opened);
      },
    });
    page = person.page;
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  test("a passkey chosen from the browser's list signs in without a typed address", async () => {
    await signUpInBrowser(page, email);
    await authenticator.setPresence(false);
    options.length = 0;
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("E-mail address").waitFor();
    expect(await page.getByLabel("E-mail address").getAttribute("autocomplete")).toBe("username webauthn");
    expect(await findBarriers(page)).toEqual([]);
    expect(options).toEqual([{ discoverable: true }]);
    // a touch that is not asked for yet answers the next list
    await authenticator.setPresence(true);
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(options).toEqual([{ discoverable: true }, { discoverable: true }]);
    await page.getByText(email).waitFor();
  });

  test("while the list is open, typing the address asks for the passkey all the same", async () => {
    await authenticator.setPresence(false);
    await page.evaluate("globalThis.lists = 0");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("E-mail address").fill(email);
    // a touch before the list is open would answer it
    await waitFor("the list to be open", async () => (await page.evaluate("globalThis.lists")) === 1);
    await authenticator.setPresence(true);
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(options.at(-1)).toEqual({ email });
  });

  test("a mistyped address is a page with status 404 for a browser, and JSON for a program", async () => {
    for (const path of ["/setings", "/links/x/y", "/pay", "/index.html"]) {
      const forBrowser = await fetch(`${world.baseUrl}${path}`, { headers: HTML });
      expect(forBrowser.status).toBe(404);
      expect(forBrowser.headers.get("content-type")).toBe("text/html; charset=utf-8");
      expect(forBrowser.headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(await forBrowser.text()).toContain("there is no such page");
      for (const accept of ["application/json", "*/*"]) {
        const forProgram = await fetch(`${world.baseUrl}${path}`, { headers: { accept } });
        expect(forProgram.status).toBe(404);
        expect(await codeOf(forProgram)).toBe("NOT_FOUND");
      }
    }
    // what a program reads stays JSON, whoever asks; and so does another method
    for (const path of ["/v1/nothing", "/api/v1/public/nothing", "/health/nothing"]) {
      const answer = await fetch(`${world.baseUrl}${path}`, { headers: HTML });
      expect([answer.status, await codeOf(answer)]).toEqual([404, "NOT_FOUND"]);
    }
    const posted = await fetch(`${world.baseUrl}/setings`, { method: "POST", headers: HTML });
    expect([posted.status, await codeOf(posted)]).toEqual([404, "NOT_FOUND"]);
    const head = await fetch(`${world.baseUrl}/setings`, { method: "HEAD", headers: HTML });
    expect([head.status, head.headers.get("content-type")]).toEqual([404, "text/html; charset=utf-8"]);
  });

  test("whoever is signed in sees it inside the frame, whoever is not is led to the start", async () => {
    await page.goto(`${world.baseUrl}/setings`);
    await page.getByRole("heading", { level: 1, name: "Not found" }).waitFor();
    await page.getByRole("navigation", { name: "Screens" }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    const stranger = await visit(browser, `${world.baseUrl}/setings`, { allowedErrors: /status of 40[14]/ });
    await stranger.page.getByRole("heading", { level: 1, name: "There is no such page" }).waitFor();
    expect(await findBarriers(stranger.page)).toEqual([]);
    await stranger.page.getByRole("link", { name: "To the start" }).click();
    await stranger.page.getByLabel("E-mail address").waitFor();
    stranger.expectClean();
    await stranger.close();
  });

  test("a German browser reads German, another language falls back to English", async () => {
    for (const [locale, title] of [
      ["de-AT", "Anmelden oder registrieren"],
      ["fr-FR", "Sign in or sign up"],
    ] as const) {
      const reader = await visit(browser, `${world.baseUrl}/sign-in`, {
        locale,
        allowedErrors: /status of 401/,
      });
      await reader.page.getByRole("heading", { level: 1, name: title }).waitFor();
      expect(await reader.page.evaluate("document.documentElement.lang")).toBe(
        locale === "de-AT" ? "de" : "en",
      );
      expect(await findBarriers(reader.page)).toEqual([]);
      reader.expectClean();
      await reader.close();
    }
  });

  test("a session that ends while a form is filled in costs nothing typed, whether the passkey is used or not", async () => {
    await page.goto(`${world.baseUrl}/links?new=1`);
    const form = page.getByRole("dialog", { name: "New payment link" });
    await form.getByLabel("Amount", { exact: true }).fill("12.5");
    await form.getByLabel("What for").fill("Typed before the session ended");
    await world.sql`delete from sessions`;
    await form.getByRole("button", { name: "Create link" }).click();
    const prompt = page.getByRole("dialog", { name: "Sign in again" });
    await prompt.waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await prompt.getByRole("button", { name: "Not now" }).click();
    await form.getByRole("alert").waitFor();
    expect(await form.getByLabel("Amount", { exact: true }).inputValue()).toBe("12.5");
    expect(await form.getByLabel("What for").inputValue()).toBe("Typed before the session ended");
    expect(await world.sql`select from payment_links`).toHaveLength(0);
    await form.getByRole("button", { name: "Create link" }).click();
    await prompt.getByRole("button", { name: "Use passkey" }).click();
    await page.getByRole("heading", { level: 1, name: "Typed before the session ended" }).waitFor();
    expect(await world.sql`select from payment_links`).toHaveLength(1);
  });

  test("no error was logged, and nothing was asked of another origin", () => {
    person.expectClean();
  });
});
