/** Errors of the API and reasons of its failures in the dashboard of a reader who does not read English. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { newEmail } from "../support/sign-up.ts";
import { addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const ROOT = join(import.meta.dir, "../..");
const NO_LIST = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";
const MESSAGES = [...new Bun.Glob("*.json").scanSync(join(ROOT, "web/messages/dashboard"))];

/** Of everything that writes an error: with `{}` for each number and each inserted value. */
const written = ["api", "core/domain", "db"]
  .flatMap((folder) => [...new Bun.Glob(`${folder}/**/*.ts`).scanSync(ROOT)])
  .map((file) => readFileSync(join(ROOT, file), "utf8"))
  .join("\n")
  .replaceAll(/\$\{(?:[^{}]|\{[^{}]*\})*\}|\d+/g, "{}");

test("translated errors are those that the API writes", () => {
  for (const file of MESSAGES) {
    const messages: Record<string, string> = JSON.parse(
      readFileSync(join(ROOT, "web/messages/dashboard", file), "utf8"),
    );
    const errors = Object.keys(messages).filter((key) => key.startsWith("error "));
    expect(errors.length).toBeGreaterThan(20);
    for (const key of errors) {
      const english = key.slice("error ".length);
      expect([file, key, written.includes(english.replaceAll(/\{n\}|\d+/g, "{}"))]).toEqual([
        file,
        key,
        true,
      ]);
      expect([file, key, messages[key]?.includes("{n}")]).toEqual([file, key, english.includes("{n}")]);
    }
  }
});

/** With `{}` for each inserted value; those of a file from elsewhere, which no dashboard shows, are left out. */
const REASONS =
  /(?:new (?:ExportRefusal|WebhookError)|\bfail)\(\s*([`"])(?!the file )([^`"]*)\1|return `(the receiver[^`]*)`|(?:UNREADABLE_SECRET|NOT_SENT) = "([^"]*)"|error: isGood \? undefined : `([^`]*)`/g;
const reasons = ["core/domain", "worker/exports", "worker/webhooks"]
  .flatMap((folder) => [...new Bun.Glob(`${folder}/**/*.ts`).scanSync(ROOT)])
  .flatMap((file) => [...readFileSync(join(ROOT, file), "utf8").matchAll(REASONS)])
  .map(([, , thrown, received, named, answered]) =>
    (thrown ?? received ?? named ?? answered ?? "").replaceAll(/\$\{[^}]*\}/g, "{}"),
  );

test("every reason of a refused file or a failed delivery is translated, and no other", () => {
  const written = [...new Set([...reasons, "service error"])].filter((reason) => reason !== "").sort();
  expect(written.length).toBeGreaterThan(20);
  for (const file of MESSAGES) {
    const messages: Record<string, string> = JSON.parse(
      readFileSync(join(ROOT, "web/messages/dashboard", file), "utf8"),
    );
    const translated = Object.keys(messages)
      .filter((key) => key.startsWith("reason "))
      .map((key) => key.slice("reason ".length).replaceAll(/\{\w+\}/g, "{}"))
      // one value of the service, as three words
      .map((key) => key.replace("up to {} {} {},", "up to {},"));
    expect([file, translated.sort()]).toEqual([file, written]);
  }
});

describe.if(isBrowserThere)("an error of the API, in a German dashboard", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;
  let page: Page;

  beforeAll(async () => {
    [world, browser] = await Promise.all([startApiWorld({ env: { TEST_MODE: "1" } }), launchBrowser()]);
    person = await visit(browser, `${world.baseUrl}/`, {
      allowedErrors: /status of 40[014]/,
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

  const open = async (path: string) => {
    await page.goto(`${world.baseUrl}${path}`);
    await page.locator("h1").waitFor();
  };

  test("about a field says what is wrong without the API's name of it", async () => {
    await open("/links?new=1&lang=de");
    await page.getByLabel("Betrag", { exact: true }).fill("1000001");
    await page.getByLabel("Wofür").fill("Kaffee");
    await page.getByRole("button", { name: "Link erstellen" }).click();
    expect(await page.getByRole("alert").textContent()).toBe("Höchstens 1000000.");
  });

  test("about one of several lines names the line", async () => {
    await open("/settings?lang=de");
    const origins = page.getByPlaceholder("https://shop.example");
    await origins.fill("https://shop.example\nshop.example/pay");
    await page.locator("form").filter({ has: origins }).getByRole("button", { name: "Speichern" }).click();
    await page.getByText("Zeile 2: Muss ein Ursprung wie https://shop.example sein").waitFor();
  });

  test("about a code says that the code is wrong", async () => {
    await page.context().clearCookies();
    await open("/?lang=de");
    await page.getByLabel("E-Mail-Adresse").fill(newEmail());
    await page.getByRole("button", { name: "Weiter", exact: true }).click();
    await page.getByLabel("Code mit 6 Ziffern").fill("000000");
    await page.getByText("Der Code ist falsch oder abgelaufen.").waitFor();
  });

  test("is logged by the browser alone", () => {
    person.expectClean();
  });
});
