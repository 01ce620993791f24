/** Lists of several pages: from page to page and back, in a second tab, with an address that names no page, and when a page loses its rows. */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { newDocumentId, newLinkId, newSendId } from "../../core/domain/ids.ts";
import { isBrowserThere, launchBrowser, type Visit, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { newEmail } from "../support/sign-up.ts";
import { insertHistory } from "../transactions/history.ts";
import { addAuthenticator, signUpInBrowser } from "./dashboard-world.ts";

setDefaultTimeout(120_000);

const NO_LIST = "PublicKeyCredential.isConditionalMediationAvailable = async () => false";
/** As many as a page of every list but those of the trail and the sends has. */
const PAGE = 50;
/** Run in a page: the part of its table that is seen only by scrolling. */
const CUT_OFF_PX =
  "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.scroll'))";
/** As the facts of documents have it. */
const ADDRESS = "x8fHx8fHx8fHx8fHx8fHx8fHx8c";
/** Two full pages and one row. */
const ROWS = 2 * PAGE + 1;

describe.if(isBrowserThere)("a list of several pages", () => {
  let world: ApiWorld;
  let browser: Browser;
  let person: Visit;
  let context: BrowserContext;
  let page: Page;
  let userId: string;

  beforeAll(async () => {
    [world, browser] = await Promise.all([
      startApiWorld({ env: { TEST_MODE: "1", WEBHOOK_PRIVATE_TARGETS: "1" } }),
      launchBrowser(),
    ]);
    person = await visit(browser, `${world.baseUrl}/`, {
      // a page that does not exist is refused, which Chromium logs
      allowedErrors: /status of 40[014]/,
      prepare: async (opened) => {
        await opened.addInitScript(NO_LIST);
        await addAuthenticator(opened);
      },
    });
    ({ context } = person);
    await signUpInBrowser(person.page, newEmail());
    userId = (await (await person.page.request.get(`${world.baseUrl}/v1/auth/me`)).json()).id;
    await addLinks("");
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });
  /** Without a history of its own. */
  beforeEach(async () => {
    page = await context.newPage();
  });
  afterEach(() => page.close());

  /** `Order 100` is the newest. Payments of the link that is named, or links of their own. */
  async function addLinks(parentId: string): Promise<void> {
    const firstMs = Date.now() - ROWS;
    const ids = Array.from({ length: ROWS }, (_, index) => newLinkId(new Date(firstMs + index)));
    await world.sql`
      insert into payment_links (id, parent_id, user_id, network, recipient, amount_units, description, status, paid_at, expires_at, created_at)
      select
        made.id, nullif(${parentId}, ''), ${userId}, wallet.network, wallet.address, 1000000 + n, 'Order ' || n - 1,
        case when ${parentId} = '' then 'ACTIVE' else 'PAID' end, case when ${parentId} <> '' then now() end, now() + interval '1 hour', now() - make_interval(mins => ${ROWS}::int - n::int)
      from unnest(${ids}::text[]) with ordinality as made (id, n)
      cross join (select network, address from wallets where user_id = ${userId} limit 1) wallet`;
  }

  const open = (path: string, on = page) => on.goto(`${world.baseUrl}${path}`);
  const button = (name: string | RegExp, on = page) => on.getByRole("button", { name, exact: true });
  const shows = (order: number, on = page) => on.getByText(`Order ${order}`, { exact: true }).waitFor();
  const toThirdPage = async () => {
    await open("/links");
    await shows(100);
    await button("Older").click();
    await shows(50);
    await button("Older").click();
    await shows(0);
  };

  test("is walked to its end and back, also after a dialog was opened on a page, and by the browser's own buttons", async () => {
    await toThirdPage();
    expect(await button("Older").isDisabled()).toBe(true);
    await button("New payment link").click();
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await button("Newer").click();
    await shows(50);
    await page.reload();
    await shows(50);
    await button("Newer").click();
    await shows(100);
    expect(await button("Newer").isDisabled()).toBe(true);
    await page.goBack();
    await shows(50);
    await button("Newer").click();
    await shows(100);
  });

  test("begins at the top of each page", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await open("/links");
    await shows(100);
    await button("Older").click();
    const first = page.getByText("Order 50", { exact: true });
    await first.waitFor();
    const { y = -1 } = (await first.boundingBox()) ?? {};
    expect(y).toBeGreaterThan(0);
    expect(y).toBeLessThan(844);
  });

  test("opened at a later page in a second tab, or at one that does not exist, leads to the newest rows", async () => {
    await toThirdPage();
    const address = new URL(page.url());
    const second = await context.newPage();
    await open(address.pathname + address.search, second);
    await shows(0, second);
    await button("Newest", second).click();
    await shows(100, second);
    await second.close();
    for (const path of ["/links", "/documents", "/security"]) {
      await open(`${path}?page=broken`);
      await button("Newest").click();
      await page.waitForURL((url) => url.search === "");
      await button("Try again").waitFor({ state: "detached" });
    }
  });

  test("says that it ends before a page that lost its rows, not that there are none", async () => {
    await open("/links?status=ACTIVE");
    await shows(100);
    await button("Older").click();
    await shows(50);
    await button("Older").click();
    await shows(0);
    await page.getByText("Order 0", { exact: true }).click();
    await page.getByRole("heading", { name: "Order 0" }).waitFor();
    await button("Cancel link").click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel link" }).click();
    await page.getByText("Cancelled", { exact: true }).first().waitFor();
    await page.goBack();
    await page.getByText("The list ends before it.").waitFor();
    await button("First page").click();
    await shows(100);
    await world.sql`update payment_links set status = 'ACTIVE', cancelled_at = null where description = 'Order 0'`;
  });

  test("of payments of one link goes on after the first page", async () => {
    const made = await page.request.post(`${world.baseUrl}/v1/payment-links`, {
      data: { amount: 1, description: "Ticket", maxPayments: null },
    });
    const { id } = await made.json();
    await addLinks(id);
    await open(`/links/${id}`);
    const rows = page.getByRole("link", { name: "Show", exact: true });
    await rows.first().waitFor();
    expect(await rows.count()).toBe(PAGE);
    await button("Older").click();
    await page.getByText("1.000051").waitFor();
    await button("Older").click();
    await page.getByText("1.000001").waitFor();
    expect(await rows.count()).toBe(1);
    await button("Newer").click();
    await page.getByText("1.000051").waitFor();
  });

  test("of deliveries belongs to the endpoint whose log is opened, and has a way back", async () => {
    const [first, other] = await Promise.all(
      ["one", "other"].map(async (name) => {
        const url = `${world.baseUrl}/${name}`;
        const made = await page.request.post(`${world.baseUrl}/v1/webhook-endpoints`, { data: { url } });
        return (await made.json()).data.id as string;
      }),
    );
    await world.sql`
      insert into events (user_id, type, subject_id, data)
      select ${userId}, 'payment_link.created', 'sample ' || n, '{}'
      from generate_series(0, ${ROWS - 1}::int) n`;
    await world.sql`
      update webhook_deliveries delivery
      set
        last_error = event.subject_id,
        created_at = now() - make_interval(mins => ${ROWS}::int - substring(event.subject_id from 8)::int)
      from events event
      where event.id = delivery.event_id and starts_with(event.subject_id, 'sample ')`;
    const sample = (n: number) => page.getByText(`sample ${n}`, { exact: true });
    await open(`/developers/webhooks?endpoint=${first}`);
    await sample(100).waitFor();
    await button("Older").click();
    await sample(50).waitFor();
    await button("Newer").click();
    await sample(100).waitFor();
    await button("Older").click();
    await sample(50).waitFor();
    await button("Hide the log").click();
    await page
      .getByRole("listitem")
      .filter({ hasText: "/other" })
      .getByRole("button", { name: "Log", exact: true })
      .click();
    await page.waitForURL((url) => url.searchParams.get("endpoint") === other);
    await sample(100).waitFor();
  });

  test("of sends keeps its page through a reload, and leads back", async () => {
    const ids = Array.from({ length: ROWS }, (_, index) => newSendId(new Date(Date.now() - ROWS + index)));
    await world.sql`
      with made as (
        insert into wallet_operations (
          id, user_id, wallet_id, network, kind, state, user_op_hash, account_nonce, call_data, call_gas, verification_gas,
          terms, challenge_id, expires_at
        )
        select
          given.id, ${userId}, wallet.id, wallet.network, 'SEND', 'CANCELLED', '0x' || lpad(to_hex(n), 64, '0'), 0, '0x', 1, 1,
          '{}', '', now()
        from unnest(${ids}::text[]) with ordinality as given (id, n)
        cross join (select id, network from wallets where user_id = ${userId} limit 1) wallet
        returning id
      )
      insert into wallet_operation_items (operation_id, position, amount_units, to_address, note)
      select made.id, 0, 1000000, ${`0x${"12".repeat(20)}`}, 'Order ' || n - 1
      from made
      join unnest(${ids}::text[]) with ordinality as given (id, n) using (id)`;
    await open("/send?note=Prefilled");
    await page.waitForURL((url) => url.search === "");
    await shows(100);
    await button("Older").click();
    await shows(80);
    await page.reload();
    await shows(80);
    await button("Older").click();
    await shows(60);
    await button("Newer").click();
    await shows(80);
  });

  test("of transactions takes only a whole number as its page", async () => {
    await insertHistory(
      world.sql,
      userId,
      Array.from({ length: ROWS }, (_, n) => ({
        ...{ type: "PAYMENT_LINK" as const, description: `Order ${n}` },
        detectedAt: new Date(Date.now() - (ROWS - n) * 60_000),
      })),
    );
    const newest = page.getByText("Payment for Order 100", { exact: true });
    for (const name of ["1.01", "-3", "x", "1e99"]) {
      await open(`/transactions?page=${name}`);
      await newest.waitFor();
    }
    await open("/transactions?page=9999999");
    await page.getByText("The list ends before it.").waitFor();
    await button("First page").click();
    await newest.waitFor();
  });

  test("of documents shows whole numbers and amounts beside a description of any length, on a phone too", async () => {
    await world.sql`
      insert into documents (
        id, user_id, kind, year, number, log_index, link_id, network, tx_hash, block_hash, amount_units, happened_at, facts
      )
      select
        ${newDocumentId()}, ${userId}, 'RECEIPT', 2026, 7, 0, id, network, sha256('tx'), sha256('block'), 1234567890123456, now(),
        ${world.sql.json(["Ann", "ann@example.com", "W".repeat(120), null, ADDRESS, ADDRESS, 100])}
      from payment_links
      where user_id = ${userId}
      limit 1`;
    for (const width of [1280, 1000, 390]) {
      await page.setViewportSize({ width, height: 844 });
      await open("/documents");
      const number = page.getByText("R-2026-00007", { exact: true });
      await number.waitFor();
      expect([width, await page.evaluate(CUT_OFF_PX)]).toEqual([width, 0]);
      const { height = 99 } = (await number.boundingBox()) ?? {};
      expect(height).toBeLessThan(30);
      expect(await page.getByText("W".repeat(120)).isVisible()).toBe(true);
    }
  });

  test("of transactions has its titles in the reader's language", async () => {
    await insertHistory(world.sql, userId, [
      { type: "RECEIVE", counterparty: `0x${"12".repeat(20)}` },
      { type: "SEND", counterparty: `0x${"34".repeat(20)}` },
      { type: "PAYMENT_LINK", description: "Sent to\nOrder" },
    ]);
    await open("/transactions?lang=de");
    for (const title of ["Empfangen von 0x1212…1212", "Gesendet an 0x3434…3434", "Zahlung für Sent to Order"])
      await page.getByText(title, { exact: true }).waitFor();
    await page.getByText("Gesendet an 0x3434…3434", { exact: true }).click();
    await page.getByRole("dialog", { name: "Gesendet an 0x3434…3434" }).waitFor();
  });
});
