/** What the service, a wallet or a receiver said in English, in a German dashboard: translated, or quoted with its speaker. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { newExportId } from "../../core/domain/ids.ts";
import { isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { newEmail } from "../support/sign-up.ts";
import { addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";
import { seedMonthlyStatements } from "./monthly-statements.ts";

setDefaultTimeout(120_000);

const NO_LIST = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";
/** A wallet that gives no account but this error. */
const WALLET = `{
  const provider = { request: async () => { throw globalThis.walletError; } };
  const info = { uuid: "1", rdns: "test.ledger", name: "Ledger", icon: "" };
  const announce = () => dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: { info, provider } }));
  addEventListener("eip6963:requestProvider", announce);
}`;
const UNKNOWN = "a reason that this version does not know";

describe.if(isBrowserThere)("words of others, in a German dashboard", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;
  let page: Page;
  let userId: string;

  beforeAll(async () => {
    [world, browser] = await Promise.all([
      startApiWorld({ env: { TEST_MODE: "1", WEBHOOK_PRIVATE_TARGETS: "1" } }),
      launchBrowser(),
    ]);
    person = await visit(browser, `${world.baseUrl}/`, {
      allowedErrors: /status of 40[14]/,
      prepare: async (opened) => {
        await opened.addInitScript(NO_LIST);
        await opened.addInitScript(WALLET);
        await addAuthenticator(opened);
      },
    });
    page = person.page;
    await signUpInBrowser(page, newEmail());
    userId = (await (await page.request.get(`${world.baseUrl}/v1/auth/me`)).json()).id;
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  const open = async (path: string) => {
    await page.goto(`${world.baseUrl}${path}`);
    await page.locator("h1").waitFor();
    await page.locator(".skeleton").first().waitFor({ state: "hidden" });
  };
  const shows = (text: string) => page.getByText(text, { exact: true }).first().waitFor({ timeout: 10_000 });

  async function addFailed(refusals: readonly (string | null)[]): Promise<void> {
    for (const refusal of refusals)
      await world.sql`
        insert into exports (id, user_id, format, request, status, refusal, attempts, expires_at)
        values (${newExportId()}, ${userId}, 'datev', '{}', 'FAILED', ${refusal}, 3, now() + interval '1 day')`;
  }

  test("about a refused file are translated with their values, unknown ones are the service's, and a failure without any is explained", async () => {
    await addFailed([
      "there is no CHF rate for 2026-07-31: see GET /v1/exchange-rates, or enter your own rate",
      "this wallet is confirmed up to 2026-02-01 12:00:00 +00:00, where this period has not begun; try again later",
      UNKNOWN,
      null,
    ]);
    await open("/exports?lang=de");
    await shows(
      "Für 2026-07-31 gibt es keinen Kurs in CHF: Geben Sie unter „Wechselkurse“ einen eigenen ein.",
    );
    await shows(
      "Diese Wallet ist bis 2026-02-01 12:00:00 +00:00 bestätigt, und der Zeitraum beginnt erst danach. Versuchen Sie es später noch einmal.",
    );
    await shows(`Der Dienst meldet: „${UNKNOWN}“`);
    await shows("Fehler des Dienstes.");
    await open("/exports?lang=en");
    await shows(UNKNOWN);
    expect(await page.getByText("CHF rate for 2026-07-31").textContent()).toStartWith("there is no CHF rate");
  });

  test("of sizes and formats are in the reader's language", async () => {
    await world.sql`
      insert into exports (id, user_id, format, request, status, byte_size, ready_at, expires_at)
      values (${newExportId()}, ${userId}, 'excel_csv', '{}', 'READY', 1234567, now(), now() + interval '1 day')`;
    await open("/exports?lang=de");
    await page.getByText("CSV für Excel · 1,2 MB", { exact: true }).waitFor({ timeout: 10_000 });
  });

  test("about a month's statement are translated", async () => {
    await seedMonthlyStatements(world.sql);
    await open("/statements?lang=de");
    const months = page.getByRole("region", { name: "Monatliche Kontoauszüge" });
    await months
      .getByText("Ein Kontoauszug enthält höchstens 100000 Bewegungen, dieser Zeitraum hat aber 100001.")
      .waitFor();
  });

  test("about a delivery and a disabled endpoint are translated, and an endpoint that its owner switched off has no reason", async () => {
    const ids: string[] = [];
    for (const path of ["log", "gone", "failing", "stopped"]) {
      const data = { url: `${world.baseUrl}/${path}` };
      const made = await page.request.post(`${world.baseUrl}/v1/webhook-endpoints`, { data });
      ids.push((await made.json()).data.id);
    }
    const [id = "", gone = "", failing = "", stopped = ""] = ids;
    await page.request.patch(`${world.baseUrl}/v1/webhook-endpoints/${stopped}`, {
      data: { enabled: false },
    });
    await world.sql`
      update webhook_endpoints
      set enabled = false, disabled_reason = case id when ${gone} then 'gone' else 'failing' end
      where id in (${gone}, ${failing})`;
    const faults = [
      "answered 503",
      "the receiver could not be reached (ECONNREFUSED)",
      "the name hooks.example does not resolve",
      UNKNOWN,
    ];
    await world.sql`
      insert into events (user_id, type, subject_id, data)
      select ${userId}, 'payment_link.created', 'sample ' || n, '{}'
      from generate_series(1, ${faults.length}::int) n`;
    await world.sql`
      update webhook_deliveries delivery
      set last_error = (${faults}::text[])[substring(event.subject_id from 8)::int], state = 'FAILED'
      from events event
      where event.id = delivery.event_id and starts_with(event.subject_id, 'sample ')`;
    await world.sql`
      insert into webhook_attempts (delivery_id, number, duration_ms, error)
      select id, 1, 12, last_error from webhook_deliveries where endpoint_id = ${id} and last_error is not null`;
    await open(`/developers/webhooks?lang=de&endpoint=${id}`);
    await shows("Der Empfänger hat mit 503 geantwortet.");
    await shows("Der Empfänger war nicht zu erreichen (ECONNREFUSED).");
    await shows("Den Namen hooks.example gibt es im DNS nicht.");
    await shows(`Der Dienst meldet: „${UNKNOWN}“`);
    const endpoint = (name: string) => page.getByRole("listitem").filter({ hasText: `/${name}` });
    await endpoint("gone")
      .getByText("Der Server hat mit 410 geantwortet: Die Adresse gibt es nicht mehr.")
      .waitFor();
    await endpoint("failing").getByText("Drei Tage lang kam nichts an.").waitFor();
    expect(await endpoint("stopped").locator(".error").count()).toBe(0);
    await page
      .getByRole("listitem")
      .filter({ hasText: "mit 503" })
      .getByRole("button", { name: "Einzelheiten" })
      .click();
    await page.getByRole("dialog").getByText("Der Empfänger hat mit 503 geantwortet.").waitFor();
  });

  test("of a wallet are quoted, and what a person can do about is explained", async () => {
    await open("/wallet?lang=de");
    await page.getByRole("button", { name: "Wallet zur Wiederherstellung hinzufügen" }).click();
    const dialog = page.getByRole("dialog");
    const cases = [
      [-32603, "Internal JSON-RPC error.", "Ledger meldet: „Internal JSON-RPC error.“"],
      [-32002, "Request already pending.", "Beantworten Sie zuerst die offene Anfrage in Ledger."],
      [
        -32000,
        "insufficient funds for gas * price + value",
        "Das Konto in Ledger hat zu wenig ETH für die Gebühr des Netzwerks.",
      ],
    ] as const;
    for (const [code, message, shown] of cases) {
      await page.evaluate(`globalThis.walletError = { code: ${code}, message: ${JSON.stringify(message)} }`);
      await dialog.getByRole("button", { name: "Weiter mit Ledger" }).click();
      await dialog.getByText(shown, { exact: true }).waitFor({ timeout: 10_000 });
    }
  });

  test("a list of files that ends at the newest 100 says so", async () => {
    const [row] = await world.sql<{ count: number }[]>`
      select count(*)::int as count from exports where user_id = ${userId}`;
    await addFailed(Array.from({ length: 99 - (row?.count ?? 0) }, () => null));
    await open("/exports?lang=de");
    await shows("Fehler des Dienstes.");
    expect(await page.getByText("Die neuesten 100 Dateien sind aufgeführt.").count()).toBe(0);
    await addFailed([null, null]);
    await open("/exports?lang=de");
    await shows("Die neuesten 100 Dateien sind aufgeführt.");
  });

  test("are logged by the browser alone", () => {
    person.expectClean();
  });
});
