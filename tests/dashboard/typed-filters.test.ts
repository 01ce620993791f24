/** Amounts typed into the filters of the history: whatever cannot be read as one number is reported, and selects nothing else instead. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { newEmail } from "../support/sign-up.ts";
import { addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const NO_LIST = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";

describe.if(isBrowserThere)("an amount typed as a filter", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;
  let page: Page;

  beforeAll(async () => {
    [world, browser] = await Promise.all([startApiWorld({ env: { TEST_MODE: "1" } }), launchBrowser()]);
    person = await visit(browser, `${world.baseUrl}/`, {
      allowedErrors: /status of 40[14]/,
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

  const atLeast = () => page.getByLabel("At least", { exact: true });
  const alert = () => page.getByRole("alert");
  /** Waits until the page has asked the service for transactions of at least this amount; null: of any. */
  const asksFor = (least: string | null, act: () => Promise<unknown>) => {
    const isAsked = ({ pathname, searchParams }: URL) =>
      pathname === "/v1/transactions" && searchParams.get("amountMin") === least;
    return Promise.all([page.waitForRequest((request) => isAsked(new URL(request.url()))), act()]);
  };
  const openHistory = (query: string) =>
    Promise.all([
      page.waitForResponse(/\/v1\/transactions\?/),
      page.goto(`${world.baseUrl}/transactions${query}`),
    ]);

  test("with a decimal comma is the number that it means, and stays as it was typed", async () => {
    await openHistory("");
    await asksFor("12.5", () => atLeast().fill("12,5"));
    expect(await atLeast().inputValue()).toBe("12,5");
    expect(await alert().count()).toBe(0);
  });

  test("is not reported while it is typed up to its decimal point", async () => {
    await openHistory("?amountMin=7");
    await asksFor("12", () => atLeast().fill("12."));
    expect(await alert().count()).toBe(0);
  });

  for (const [typed, said] of [
    ["1,000", "can be read in two ways"],
    ["1.000,50", "Not an amount"],
    ["1 000", "Not an amount"],
    ["abc", "Not an amount"],
  ] as const)
    test(`as “${typed}” is reported instead of being taken for another amount or ignored`, async () => {
      await openHistory("?amountMin=7");
      await asksFor(null, () => atLeast().fill(typed));
      await alert().getByText(said).waitFor();
      expect(await atLeast().getAttribute("aria-invalid")).toBe("true");
      expect(await atLeast().inputValue()).toBe(typed);
    });

  test("that cannot be read makes no export, and one that can be read does", async () => {
    await page.goto(`${world.baseUrl}/exports?amountMin=1%2C000`);
    await alert().getByText("can be read in two ways").waitFor();
    const create = page.getByRole("button", { name: "Create the file" });
    expect(await create.isDisabled()).toBe(true);
    await atLeast().fill("1000,00");
    const [request] = await Promise.all([page.waitForRequest(/\/v1\/transactions\/export$/), create.click()]);
    expect(request.postDataJSON()).toMatchObject({ amountMin: "1000.00" });
  });

  test("that is absent is no filter: a history without transactions says so, and an export names none", async () => {
    await openHistory("");
    await page.getByText("No transactions yet").waitFor();
    await asksFor("5", () => atLeast().fill("5"));
    await page.getByText("Nothing matches").waitFor();
    await page.goto(`${world.baseUrl}/exports`);
    const create = page.getByRole("button", { name: "Create the file" });
    const [request] = await Promise.all([page.waitForRequest(/\/v1\/transactions\/export$/), create.click()]);
    expect(Object.keys(request.postDataJSON()).filter((name) => name.startsWith("amount"))).toEqual([]);
  });

  test("no error was logged, and nothing was requested from another origin", () => {
    person.expectClean();
  });
});
