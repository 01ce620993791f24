/** The way in, in a real browser: the browser's own list of passkeys, a Google account, and addresses that lead nowhere. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { findBarriers, isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { waitFor } from "../support/relay-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import { type Authenticator, addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";
import { type GoogleAccount, type GoogleProvider, startGoogleProvider } from "./google-account.ts";

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

/** A browser that announces the list and then cannot open it. */
const BROKEN_LIST = `
  PublicKeyCredential.isConditionalMediationAvailable = async () => true;
  globalThis.lists = 0;
  navigator.credentials.get = () => {
    setTimeout(() => { globalThis.lists += 1; }, 300);
    return Promise.reject(new DOMException("not supported at this time", "NotSupportedError"));
  };
`;

const NO_LIST = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";

const codeOf = async (answer: Response) => ((await answer.json()) as { error: { code: string } }).error.code;

describe.if(isBrowserThere)("signing in to the dashboard", () => {
  let world: ApiWorld;
  let google: GoogleProvider;
  let browser: Browser;
  let person: Visit;
  let page: Page;
  let authenticator: Authenticator;
  const email = newEmail();
  const options: unknown[] = [];

  beforeAll(async () => {
    google = await startGoogleProvider();
    const env = { TEST_MODE: "1", ...google.env };
    [world, browser] = await Promise.all([startApiWorld({ env }), launchBrowser()]);
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
    await google?.stop();
  });

  test("a passkey chosen from the browser's list signs in without a typed address", async () => {
    await signUpInBrowser(page, email);
    await authenticator.setPresence(false);
    options.length = 0;
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("E-mail address").waitFor();
    expect(await page.getByLabel("E-mail address").getAttribute("autocomplete")).toBe("username webauthn");
    expect(await findBarriers(page)).toEqual([]);
    await waitFor("the list to be asked for", async () => options.length > 0);
    expect(options).toEqual([{ discoverable: true }]);
    // a touch that is not asked for yet answers the next list
    await authenticator.setPresence(true);
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(options).toEqual([{ discoverable: true }, { discoverable: true }]);
    await page.getByText(email).waitFor();
    // the delayed count of this list must not be taken for that of the next one
    await waitFor("the list to be counted", async () => (await page.evaluate("globalThis.lists")) === 1);
  });

  test("while the list is open, typing the address still asks for the passkey", async () => {
    await authenticator.setPresence(false);
    await page.evaluate("globalThis.lists = 0");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("E-mail address").fill(email);
    await waitFor("the list to be open", async () => (await page.evaluate("globalThis.lists")) === 1);
    // the page has ended the list when it asks for the passkey of this address; a touch before would answer the list
    await page.route("**/v1/auth/options", async (route) => {
      await authenticator.setPresence(true);
      await route.continue();
    });
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(options.at(-1)).toEqual({ email });
    await page.unroute("**/v1/auth/options");
  });

  test("when the browser cannot open its list, the page takes the address and shows no error", async () => {
    const reader = await visit(browser, `${world.baseUrl}/sign-in`, {
      allowedErrors: /status of 401/,
      prepare: async (opened) => {
        await opened.addInitScript(BROKEN_LIST);
      },
    });
    await waitFor("the list to fail", async () => (await reader.page.evaluate("globalThis.lists")) === 1);
    expect(await reader.page.getByText(/The browser reports/).count()).toBe(0);
    expect(await reader.page.getByRole("button", { name: "Continue", exact: true }).isEnabled()).toBe(true);
    reader.expectClean();
    await reader.close();
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

  test("for an unknown page signed-in people see the navigation, others a link to the start page", async () => {
    await page.goto(`${world.baseUrl}/setings`);
    await page.getByRole("heading", { level: 1, name: "Not found" }).waitFor();
    await page.getByRole("navigation", { name: "Screens" }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    const stranger = await visit(browser, `${world.baseUrl}/setings`, { allowedErrors: /status of 40[14]/ });
    await stranger.page.getByRole("heading", { level: 1, name: "There is no such page" }).waitFor();
    expect(await findBarriers(stranger.page)).toEqual([]);
    await stranger.page.getByRole("link", { name: "Go to the start page" }).click();
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
      // in English it is the screen of the first test
      if (locale === "de-AT") expect(await findBarriers(reader.page)).toEqual([]);
      reader.expectClean();
      await reader.close();
    }
  });

  const visitWithGoogle = (allowedErrors = /status of 401/) =>
    visit(browser, `${world.baseUrl}/sign-in`, {
      allowedErrors,
      alsoVisits: google.origin,
      prepare: async (opened) => {
        // the authenticator would answer the list of passkeys at the address field by itself
        await opened.addInitScript(NO_LIST);
        await addAuthenticator(opened);
      },
    });
  const choose = async (shown: Page, name: string) => {
    await shown.getByRole("heading", { name: "Choose an account" }).waitFor();
    await shown.getByRole("link", { name }).click();
  };
  const chooseAccount = async ({ page: shown }: Visit, name: string) => {
    await shown.getByRole("link", { name: "Continue with Google" }).click();
    await choose(shown, name);
  };

  test("a Google account that is new here leads to the wallet's passkey, and a known one to the overview", async () => {
    const account = { sub: "ada", email: newEmail(), email_verified: true };
    google.offer(account);
    const ada = await visitWithGoogle();
    await chooseAccount(ada, account.email);
    await ada.page.getByRole("heading", { level: 1, name: "Create your wallet" }).waitFor();
    expect(await findBarriers(ada.page)).toEqual([]);
    await ada.page.getByRole("button", { name: "Create passkey" }).click();
    await ada.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await ada.page.getByRole("button", { name: "Sign out" }).click();
    await chooseAccount(ada, account.email);
    await ada.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await ada.page.getByText(account.email).waitFor();
    const rows = await world.sql<{ status: string; subject: string }[]>`
      select users.status, identities.subject
      from users
      join identities on identities.user_id = users.id
      where users.email = ${account.email}`;
    expect(rows.map(({ status, subject }) => [status, subject])).toEqual([["ACTIVE", "ada"]]);
    ada.expectClean();
    await ada.close();
  });

  test("a person who chose the wrong Google account signs out before creating the wallet, and uses another one", async () => {
    const [wrong, right] = ["grace-private", "grace"].map((sub) => {
      return { sub, email: newEmail(), email_verified: true };
    }) as [GoogleAccount, GoogleAccount];
    google.offer(wrong);
    const grace = await visitWithGoogle();
    await chooseAccount(grace, wrong.email);
    await grace.page.getByText(wrong.email).waitFor();
    const sessionsOf = async ({ email: address }: GoogleAccount) => {
      const rows = await world.sql<{ status: string }[]>`
        select users.status from users join sessions on sessions.user_id = users.id where users.email = ${address}`;
      return rows.map(({ status }) => status);
    };
    expect(await sessionsOf(wrong)).toEqual(["WALLET_SETUP_PENDING"]);
    await grace.page.getByRole("button", { name: "Use another account" }).click();
    await grace.page.getByLabel("E-mail address").waitFor();
    expect(await grace.page.getByLabel("E-mail address").inputValue()).toBe("");
    expect(new URL(grace.page.url()).pathname).toBe("/sign-in");
    expect(await sessionsOf(wrong)).toEqual([]);
    google.offer(right);
    await chooseAccount(grace, right.email);
    await grace.page.getByText(right.email).waitFor();
    await grace.page.getByRole("button", { name: "Create passkey" }).click();
    await grace.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(await sessionsOf(right)).toEqual(["ACTIVE"]);
    grace.expectClean();
    await grace.close();
  });

  test("a Google account that may not open an account, and a cancelled choice, say what to do and open no session", async () => {
    const refused = await visitWithGoogle();
    const sessionsOf = async () => (await world.sql`select from sessions`).length;
    const before = await sessionsOf();
    for (const [account, link, text] of [
      // this address signed up without Google, which does not run its mailbox
      [{ sub: "other", email, email_verified: true }, email, "is not linked here. Sign in with your passkey"],
      [{ sub: "new", email: newEmail(), email_verified: false }, "@", "did not work. Try again"],
      [{ sub: "new", email: newEmail(), email_verified: true }, "Cancel", "did not work. Try again"],
    ] as const) {
      google.offer(account);
      await chooseAccount(refused, link);
      await refused.page.getByRole("alert").getByText(text).waitFor();
      expect(new URL(refused.page.url()).pathname).toBe("/sign-in");
    }
    expect(await findBarriers(refused.page)).toEqual([]);
    expect(await sessionsOf()).toBe(before);
    refused.expectClean();
    await refused.close();
  });

  test("an owner links a Google account under Security, signs in with it, and unlinks it; the last way to sign in stays", async () => {
    const owner = { sub: "owner", email: newEmail(), email_verified: true };
    const signedUpAs = newEmail();
    // unknown before it signs up, a passkey that is not fresh, the last way in
    const joan = await visitWithGoogle(/status of 40[1349]/);
    const { page: shown } = joan;
    const methods = shown.getByRole("region", { name: "Sign-in methods" });
    const link = async (account: GoogleAccount, name: string) => {
      google.offer(account);
      await methods.getByRole("button", { name: "Link a Google account" }).click();
      await choose(shown, name);
    };
    await signUpInBrowser(shown, signedUpAs);
    await shown.getByRole("link", { name: "Security", exact: true }).click();
    await methods.getByText("No account is linked").waitFor();
    expect(await findBarriers(shown)).toEqual([]);

    // until the accounts are read, their outline stands below the list: a list holds its items alone
    await shown.route("**/v1/auth/google/accounts", () => undefined);
    await shown.reload();
    await methods.locator(".skeleton").waitFor();
    expect(await methods.locator("ul > :not(li)").count()).toBe(0);
    await shown.unroute("**/v1/auth/google/accounts");
    await shown.reload();
    await methods.getByText("No account is linked").waitFor();

    await link({ sub: "ada", email: newEmail(), email_verified: true }, "@");
    await methods.getByRole("alert").getByText("is linked to another account here").waitFor();
    expect(await findBarriers(shown)).toEqual([]);
    await link(owner, owner.email);
    await methods.getByText("The Google account is linked").waitFor();
    await methods.getByText("Google account", { exact: true }).waitFor();
    expect(shown.url()).toBe(`${world.baseUrl}/security`);
    await methods.getByText(owner.email).waitFor();
    expect(await findBarriers(shown)).toEqual([]);
    await shown.reload();
    await methods.getByText("Google account", { exact: true }).waitFor();
    expect(await methods.getByText("is linked").count()).toBe(0);

    await shown.getByRole("button", { name: "Sign out" }).click();
    await chooseAccount(joan, owner.email);
    await shown.getByText(signedUpAs).waitFor();
    // signed in by Google alone: linking another takes the passkey
    await shown.getByRole("link", { name: "Security", exact: true }).click();
    await methods.getByRole("button", { name: "Link a Google account" }).click();
    await shown.getByRole("dialog").getByRole("button", { name: "Use passkey" }).click();
    await choose(shown, "Cancel");
    await methods.getByRole("alert").getByText("nothing was linked").waitFor();

    const unlink = async (beforeIt?: () => Promise<void>) => {
      await methods.getByRole("button", { name: `Unlink ${owner.email}` }).click();
      await shown.getByRole("dialog").getByText("It can no longer be used to sign in").waitFor();
      await shown.getByRole("dialog").getByText(owner.email).waitFor();
      await beforeIt?.();
      await shown.getByRole("dialog").getByRole("button", { name: "Unlink" }).click();
    };
    await unlink(async () => expect(await findBarriers(shown)).toEqual([]));
    await methods.getByText("No account is linked").waitFor();
    const identities = () => world.sql`select from identities where subject = ${owner.sub}`;
    expect(await identities()).toHaveLength(0);

    await link(owner, owner.email);
    await methods.getByText("The Google account is linked").waitFor();
    // the passkey is no owner any more
    await world.sql`
      update wallets set owners = array['0x' || repeat('00', 64)]
      where user_id = (select id from users where email = ${signedUpAs})`;
    await unlink();
    await shown.getByRole("dialog").getByRole("alert").getByText("the only way into the account").waitFor();
    await shown.getByRole("button", { name: "Keep it" }).click();
    expect(await identities()).toHaveLength(1);
    joan.expectClean();
    await joan.close();
  });

  test("a session that ends while a form is filled in loses no input, whether the passkey is used or not", async () => {
    await page.goto(`${world.baseUrl}/links?new=1`);
    const form = page.getByRole("dialog", { name: "New payment link" });
    await form.getByLabel("Amount", { exact: true }).fill("12.5");
    await form.getByLabel("What for").fill("Typed before the session ended");
    await world.sql`delete from sessions`;
    // not a click of the pointer: what the page still reads may have opened the prompt before
    await form.getByRole("button", { name: "Create link" }).dispatchEvent("click");
    const prompt = page.getByRole("dialog", { name: "Sign in again" });
    await prompt.waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await prompt.getByRole("button", { name: "Not now" }).click();
    await form.getByRole("alert").waitFor();
    expect(await form.getByLabel("Amount", { exact: true }).inputValue()).toBe("12.5");
    expect(await form.getByLabel("What for").inputValue()).toBe("Typed before the session ended");
    expect(await world.sql`select from payment_links`).toHaveLength(0);
    await form.getByRole("button", { name: "Create link" }).dispatchEvent("click");
    await prompt.getByRole("button", { name: "Use passkey" }).click();
    await page.getByRole("heading", { level: 1, name: "Typed before the session ended" }).waitFor();
    expect(await world.sql`select from payment_links`).toHaveLength(1);
  });

  test("no error was logged, and nothing was requested from another origin", () => {
    person.expectClean();
  });
});
