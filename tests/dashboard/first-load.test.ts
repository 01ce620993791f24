/** What the dashboard shows before anybody is signed in: which money it is about, and that it did not load. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser } from "playwright-core";
import { findBarriers, holdAnimations, isBrowserThere, launchBrowser, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";

setDefaultTimeout(120_000);

describe.if(isBrowserThere)("the first page of the dashboard", () => {
  let world: ApiWorld;
  let browser: Browser;

  beforeAll(async () => {
    [world, browser] = await Promise.all([startApiWorld(), launchBrowser()]);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  test.each([
    ["test networks alone", true, 1],
    ["a network of real money, too", false, 0],
  ])("of a service of %s tells whether USDC has a value", async (_, isTestnet, notes) => {
    const reader = await visit(browser, `${world.baseUrl}/sign-in`, {
      allowedErrors: /status of 401/,
      prepare: async (opened) => {
        await opened.route("**/sign-in", async (route) => {
          const answer = await route.fetch();
          const base = JSON.stringify({ id: "base", name: "Base", chainId: 8453, isTestnet });
          const body = (await answer.text()).replace('"networks":[', `"networks":[${base},`);
          expect(body).toContain(base);
          await route.fulfill({ response: answer, body });
        });
      },
    });
    await reader.page.getByLabel("E-mail address").waitFor();
    expect(await reader.page.getByText("Test network: USDC here has no value.").count()).toBe(notes);
    await reader.close();
  });

  test("a script that fails to load is reported, with a retry link; after one that loads the message is gone", async () => {
    let isBroken = true;
    let letWaitEnd = async () => {};
    const reader = await visit(browser, `${world.baseUrl}/sign-in`, {
      allowedErrors: /net::ERR_FAILED|status of 401/,
      prepare: async (opened) => {
        letWaitEnd = await holdAnimations(opened);
        await opened.route("**/dashboard*.js", (route) => (isBroken ? route.abort() : route.continue()));
      },
    });
    const message = reader.page.getByRole("heading", { name: "The dashboard did not load" });
    expect(await message.isVisible()).toBe(false);
    await letWaitEnd();
    await message.waitFor();
    expect(await findBarriers(reader.page)).toEqual([]);
    isBroken = false;
    await reader.page.getByRole("link", { name: "try again" }).click();
    await reader.page.getByLabel("E-mail address").waitFor();
    expect(await message.count()).toBe(0);
    reader.expectClean();
    await reader.close();
  });
});
