/** What the dashboard sends again, in a real browser: reads beside an answer that replaces the session, and calls of a session that is over. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page, Request } from "playwright-core";
import { isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { waitFor } from "../support/relay-lab.ts";
import { newEmail } from "../support/sign-up.ts";
import { addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const NO_LIST = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";
/** All of the API but the event stream, whose answer does not end. */
const CALLS = /\/v1\/(?!events\/stream)/;

describe.if(isBrowserThere)("a call that is refused with 401", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;
  let page: Page;
  /** Statuses of each call, in the order of its answers. */
  const answers = new Map<string, number[]>();

  beforeAll(async () => {
    const networks = ["base", "base-sepolia"] as const;
    [world, browser] = await Promise.all([
      startApiWorld({ env: { TEST_MODE: "1" }, networks }),
      launchBrowser(),
    ]);
    person = await visit(browser, `${world.baseUrl}/`, {
      allowedErrors: /status of (40[14]|500)|net::ERR_FAILED/,
      prepare: async (opened) => {
        await opened.addInitScript(NO_LIST);
        await addAuthenticator(opened);
      },
    });
    page = person.page;
    page.on("response", (response) => {
      if (!CALLS.test(response.url())) return;
      const name = nameOf(response.request());
      answers.set(name, [...(answers.get(name) ?? []), response.status()]);
    });
    await signUpInBrowser(page, newEmail());
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  const nameOf = (request: Request) => `${request.method()} ${request.url().slice(world.baseUrl.length)}`;
  const prompt = () => page.getByRole("dialog", { name: "Sign in again" });
  const sessionCookie = async () => {
    const cookies = await page.context().cookies();
    return cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  };
  /** With the browser's own session, from elsewhere: the browser keeps its cookie. */
  const endSession = async () => {
    const ended = await fetch(`${world.baseUrl}/v1/auth/logout`, {
      method: "POST",
      headers: { cookie: await sessionCookie() },
    });
    expect(ended.status).toBe(200);
    expect(await world.sql`select from sessions`).toHaveLength(0);
  };

  test("a read by a session that was replaced by wallet setup is retried without a sign-in prompt", async () => {
    await page.getByRole("link", { name: "Wallet", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Wallet" }).waitFor();
    const replaced = await sessionCookie();
    const refused: string[] = [];
    const firstRefused = Promise.withResolvers<void>();
    const cookieIsNew = Promise.withResolvers<void>();
    await page.route(CALLS, async (route) => {
      if (route.request().method() !== "GET") return route.fallback();
      const response = await route.fetch();
      if (response.status() === 401) {
        refused.push(nameOf(route.request()));
        firstRefused.resolve();
        await cookieIsNew.promise;
      }
      await route.fulfill({ response });
    });
    // the service has replaced the session, and the browser does not know the new one until a read was refused
    await page.route("**/v1/wallets/setup/complete", async (route) => {
      const request = route.request();
      const answer = await fetch(request.url(), {
        method: "POST",
        headers: { ...request.headers(), cookie: replaced },
        body: request.postData(),
      });
      await firstRefused.promise;
      const [type, cookie] = [answer.headers.get("content-type"), answer.headers.get("set-cookie")];
      await route.fulfill({
        status: answer.status,
        headers: { "content-type": type ?? "", "set-cookie": cookie ?? "" },
        body: await answer.text(),
      });
    });
    await page.getByRole("button", { name: /^Set up / }).click();
    await waitFor("the new session's cookie", async () => (await sessionCookie()) !== replaced);
    cookieIsNew.resolve();
    await page.getByRole("button", { name: /^Set up / }).waitFor({ state: "detached" });
    await waitFor("an answer to every refused read", async () =>
      refused.every((name) => answers.get(name)?.at(-1) === 200),
    );
    expect(refused.length).toBeGreaterThan(0);
    expect(new Set(refused).size).toBe(refused.length);
    expect(await prompt().count()).toBe(0);
    await page.unrouteAll({ behavior: "wait" });
  });

  test("a read by a session that was ended elsewhere is retried once, then the passkey is asked for", async () => {
    const reads = () => [...answers].filter(([name]) => name.startsWith("GET "));
    // before the session's end, which ends the event stream: what the page reads then is refused at once, and counted whole
    answers.clear();
    await endSession();
    // not a click of the pointer: what the page reads for its event stream may have opened the prompt before
    await page.getByRole("link", { name: "Transactions", exact: true }).dispatchEvent("click");
    await prompt().waitFor();
    await waitFor("the refusals of the new screen", async () =>
      reads().some(([name, all]) => name.startsWith("GET /v1/transactions") && all.includes(401)),
    );
    await waitFor("the second refusals", async () =>
      reads().every(([, all]) => all.filter((status) => status === 401).length !== 1),
    );
    await prompt().getByRole("button", { name: "Use passkey" }).click();
    await prompt().waitFor({ state: "detached" });
    await waitFor("all reads", async () => reads().every(([, all]) => all.includes(200)));
    const repeated = reads().filter(([, all]) => all.includes(401));
    expect(repeated.map(([name]) => name)).toContainEqual(expect.stringContaining("/v1/transactions"));
    for (const [, all] of repeated) {
      const [first, second, third, ...later] = all.slice(all.indexOf(401));
      expect([first, second, third]).toEqual([401, 401, 200]);
      expect(later).not.toContain(401);
    }
  });

  test("the account is read again after a change without leaving the screen, although its first read is refused", async () => {
    await page.getByRole("link", { name: "Settings", exact: true }).click();
    answers.clear();
    let reads = 0;
    await page.route("**/v1/auth/me", async (route) => {
      if (route.request().method() !== "GET" || reads++ > 0) return route.fallback();
      const error = { code: "UNAUTHORIZED", message: "Sign in first." };
      await route.fulfill({ status: 401, json: { success: false, error } });
    });
    const form = page.getByRole("region", { name: "Your name, as payers see it" });
    await form.getByLabel("Merchant name").fill("Corner shop");
    await form.getByRole("button", { name: "Save", exact: true }).click();
    await waitFor("the second read", async () => answers.get("GET /v1/auth/me")?.length === 2);
    expect(answers.get("GET /v1/auth/me")).toEqual([401, 200]);
    expect(await form.getByLabel("Merchant name").inputValue()).toBe("Corner shop");
    expect(await prompt().count()).toBe(0);
    await page.unrouteAll({ behavior: "wait" });
  });

  test("a change stays on its screen when the account cannot be read again, and the notice goes with the next read", async () => {
    await page.getByRole("link", { name: "Settings", exact: true }).click();
    const form = page.getByRole("region", { name: "Your name, as payers see it" });
    const notice = page.getByRole("alert");
    const retry = notice.getByRole("button", { name: "Try again" });
    let reads = 0;
    await page.route("**/v1/auth/me", async (route) => {
      if (route.request().method() !== "GET") return route.fallback();
      reads++;
      if (reads > 1) return route.abort();
      const error = { code: "INTERNAL_ERROR", message: "The database does not answer." };
      await route.fulfill({ status: 500, json: { success: false, error } });
    });
    await form.getByLabel("Merchant name").fill("Harbour shop");
    await form.getByRole("button", { name: "Save", exact: true }).click();
    await notice.getByText("The database does not answer.").waitFor();
    expect(await form.getByLabel("Merchant name").inputValue()).toBe("Harbour shop");
    await retry.click();
    await notice.getByText("The service did not answer.").waitFor();
    expect(await form.getByLabel("Merchant name").inputValue()).toBe("Harbour shop");
    await page.unrouteAll({ behavior: "wait" });
    await retry.click();
    await notice.waitFor({ state: "detached" });
    expect(await form.getByLabel("Merchant name").inputValue()).toBe("Harbour shop");
    expect(reads).toBe(2);
  });

  test("a write by a session that was ended elsewhere is sent once, and again after the passkey", async () => {
    await page.goto(`${world.baseUrl}/links?new=1`);
    const form = page.getByRole("dialog", { name: "New payment link" });
    await form.getByLabel("Amount", { exact: true }).fill("7.5");
    await form.getByLabel("What for").fill("Sent again by the passkey alone");
    await endSession();
    answers.clear();
    // not a click of the pointer: what the page still reads may have opened the prompt before
    await form.getByRole("button", { name: "Create link" }).dispatchEvent("click");
    await waitFor("the refusal", async () => answers.has("POST /v1/payment-links"));
    await prompt().getByRole("button", { name: "Use passkey" }).click();
    await page.getByRole("heading", { level: 1, name: "Sent again by the passkey alone" }).waitFor();
    expect(answers.get("POST /v1/payment-links")).toEqual([401, 201]);
    expect(await world.sql`select from payment_links`).toHaveLength(1);
  });

  test("signing out while the account cannot be read shows sign-in, and a pending response does not undo that", async () => {
    await page.goto(`${world.baseUrl}/settings`);
    const form = page.getByRole("region", { name: "Your name, as payers see it" });
    const retry = page.getByRole("alert").getByRole("button", { name: "Try again" });
    const email = page.getByLabel("E-mail address");
    const [asked, signedOut] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await form.getByLabel("Merchant name").waitFor();
    let reads = 0;
    await page.route("**/v1/auth/me", async (route) => {
      if (route.request().method() !== "GET") return route.fallback();
      if (reads++ === 0) {
        const error = { code: "INTERNAL_ERROR", message: "The database does not answer." };
        return route.fulfill({ status: 500, json: { success: false, error } });
      }
      const response = await route.fetch();
      asked.resolve();
      await signedOut.promise;
      await route.fulfill({ response });
    });
    await form.getByLabel("Merchant name").fill("Quay shop");
    await form.getByRole("button", { name: "Save", exact: true }).click();
    await retry.click();
    await asked.promise;
    expect(await retry.and(page.locator(":focus")).count()).toBe(1);
    answers.clear();
    await page.getByRole("button", { name: "Sign out" }).click();
    await email.waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    signedOut.resolve();
    await waitFor("the late answer", async () => answers.get("GET /v1/auth/me")?.at(-1) === 200);
    await page.unrouteAll({ behavior: "wait" });
    // the page has read the answer when it can draw twice
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    expect(await page.getByRole("navigation", { name: "Screens" }).count()).toBe(0);
    expect(await email.isVisible()).toBe(true);
  });

  test("no error was logged, and nothing was requested from another origin", () => {
    person.expectClean();
  });
});
