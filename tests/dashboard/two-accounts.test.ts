/** Two tabs of one browser share its session: what another account signs in to in one tab, the other tab shows. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { newEmail } from "../support/sign-up.ts";
import { addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

describe.if(isBrowserThere)("another account that signs in", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;

  const prepare = async (page: Page) => {
    await page.addInitScript("PublicKeyCredential.isConditionalMediationAvailable = async () => false");
    await addAuthenticator(page);
  };

  beforeAll(async () => {
    [world, browser] = await Promise.all([startApiWorld({ env: { TEST_MODE: "1" } }), launchBrowser()]);
    person = await visit(browser, `${world.baseUrl}/`, { allowedErrors: /status of 40[14]/, prepare });
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  test("in one tab is shown by the other, where a link would be paid to it", async () => {
    const { page: first, context } = person;
    const [ann, bob] = [newEmail(), newEmail()];
    await signUpInBrowser(first, ann);
    await first.getByText(ann).waitFor();
    const second = await context.newPage();
    await prepare(second);
    await second.goto(world.baseUrl);
    await second.getByRole("button", { name: "Sign out" }).click();
    await signUpInBrowser(second, bob);
    await first.getByText(bob).waitFor();
    expect(await first.getByText(ann).count()).toBe(0);
    person.expectClean();
  });
});
