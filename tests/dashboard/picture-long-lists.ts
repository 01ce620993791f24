/** Every list at more rows than a page has: its first and second page, in English and German, with every status, fault and reason a row can have. */
import type { Page } from "playwright-core";
import { newDocumentId, newExportId, newLinkId, newSendId } from "../../core/domain/ids.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import { newEmail, signUp } from "../support/sign-up.ts";
import { insertHistory } from "../transactions/history.ts";
import { type DashboardWorld, signUpInBrowser } from "./dashboard-world.ts";
import { seedMonthlyStatements } from "./monthly-statements.ts";

type Take = (shown: Page, name: string) => Promise<void>;
type Given = { dashboard: DashboardWorld; userId: string };

/** More than two pages of most lists. */
const ROWS = 101;
const MEMBERS = 12;
const LONG_NAME = "Gesellschaft für Versuchswirtschaft und Teehandel mbH & Co KG, Hauptniederlassung Süd";
const DESCRIPTIONS = [
  "Tea",
  "Two coffees and a book",
  LONG_NAME,
  "W".repeat(60),
  "مقهى الفجر",
  "請求書 2026-07",
];
/** From the smallest to the largest. */
const UNITS = [1n, 1_000_000n, 12_500_000n, 999_999_999_999n, 1_234_567_890_123_456n] as const;
const DELIVERY_FAULTS = [
  null,
  "answered 500",
  "no answer within 10 seconds",
  "the receiver could not be reached (ECONNREFUSED)",
  "the name hooks.cafe-aurora-and-daughters.example does not resolve",
  "a fault that this version does not know",
];
const REFUSALS = [
  "this format holds at most 10000 movements, but 12345 match: choose a shorter period",
  "there is no CHF rate for 2026-07-31: see GET /v1/exchange-rates, or enter your own rate",
  "a reason that this version does not know",
];
/** As facts of documents have it. */
const ADDRESS = "x8fHx8fHx8fHx8fHx8fHx8fHx8c";
const PATHS = ["links", "transactions", "send", "documents", "exports", "statements", "members", "security"];
const PAGED = ["links", "transactions", "send", "documents", "security"];

const timesFromNow = (count: number) =>
  Array.from({ length: count }, (_, n) => Date.now() - (count - n) * 5_000_000);
const pick = <Item>(items: readonly Item[], n: number) => items[n % items.length] as Item;
const hex = (n: number, bytes: number) => `0x${n.toString(16).padStart(bytes * 2, "c7")}` as const;

export async function takeLongLists(dashboard: DashboardWorld, take: Take): Promise<void> {
  const { baseUrl, sql } = dashboard.world;
  const { page, close } = await dashboard.open("/", { allowedErrors: /./ });
  await signUpInBrowser(page, newEmail());
  const { id: userId } = await (await page.request.get(`${baseUrl}/v1/auth/me`)).json();
  const given = { dashboard, userId };
  await addLinks(given, "");
  const body = { amount: null, minAmount: 1, maxAmount: 500_000, maxPayments: null, description: LONG_NAME };
  const made = await page.request.post(`${baseUrl}/v1/payment-links`, { data: body });
  const { id: reusable } = await made.json();
  await addLinks(given, reusable);
  await addHistory(given);
  await addSends(given);
  await addDocuments(given);
  await addExports(given);
  await seedMonthlyStatements(sql);
  const endpoint = await addDeliveries(page, given);
  await addMembers(page, given);
  await addTrail(given);
  const shown = [...PATHS, `links/${reusable}`, `developers/webhooks?endpoint=${endpoint}`];
  for (const language of ["en", "de"])
    for (const path of shown) {
      const url = new URL(`${baseUrl}/${path}`);
      url.searchParams.set("lang", language);
      await page.goto(url.href);
      const name = `long-${path.replace(/[/?].*/, path.includes("/") ? "-detail" : "")}-${language}`;
      await settle(page);
      await take(page, name);
      const older = page.locator(".pager button").last();
      if (language === "de" || !(PAGED.includes(path) || path.includes("/"))) continue;
      await older.click();
      await page.waitForURL((at) => at.searchParams.has("page"));
      await settle(page);
      await take(page, `${name}-page-2`);
    }
  await close();
}

async function settle(page: Page): Promise<void> {
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.locator(".skeleton").first().waitFor({ state: "hidden" });
  await page.waitForTimeout(300);
}

/** Payments of the link that is named, or links of their own. */
async function addLinks({ dashboard, userId }: Given, parentId: string): Promise<void> {
  const times = timesFromNow(ROWS);
  const rows = times.map((at, n) => ({
    id: newLinkId(new Date(at)),
    description: pick(DESCRIPTIONS, n),
    units: String(pick(UNITS.slice(0, 4), n)),
    status: parentId ? "PAID" : pick(["ACTIVE", "PAID", "EXPIRED", "CANCELLED"], n),
    exception: parentId ? "NONE" : pick(["NONE", "NONE", "NONE", "UNDERPAID", "PAID_LATE"], n),
    at: new Date(at).toISOString(),
    payer: hex(n, 20),
  }));
  await dashboard.world.sql`
    insert into payment_links (
      id, parent_id, user_id, network, recipient, amount_units, description, status, exception, paid_at, expires_at, created_at
    )
    select
      made.id, nullif(${parentId}, ''), ${userId}, wallet.network, wallet.address, made.units, made.description, made.status, made.exception,
      case when made.status = 'PAID' then made.at end, made.at + interval '90 days', made.at
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as made (
      id text, description text, units numeric, status text, exception text, at timestamptz
    )
    cross join (select network, address from wallets where user_id = ${userId} limit 1) wallet`;
}

async function addHistory({ dashboard, userId }: Given): Promise<void> {
  const rows = timesFromNow(ROWS).map((at, n) => ({
    type: pick(TRANSACTION_TYPES, n),
    status: pick(TRANSACTION_STATUSES, n),
    description: pick(["", ...DESCRIPTIONS], n),
    amountUnits: pick(UNITS, n),
    detectedAt: new Date(at),
  }));
  await insertHistory(dashboard.world.sql, userId, rows);
}

async function addSends({ dashboard, userId }: Given): Promise<void> {
  const rows = timesFromNow(ROWS).map((at, n) => ({
    id: newSendId(new Date(at)),
    state: pick(["CONFIRMED", "CANCELLED", "FAILED"], n),
    units: String(pick(UNITS, n)),
    note: pick(["", ...DESCRIPTIONS], n),
    hash: hex(n, 32),
    n,
    items: n % 7 === 3 ? 3 : 1,
  }));
  await dashboard.world.sql`
    with given as (
      select *
      from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
        id text, state text, units numeric, note text, hash text, items int, n int
      )
    ),
    made as (
      insert into wallet_operations (
        id, user_id, wallet_id, network, kind, state, reason, tx_hash, succeeded, user_op_hash, account_nonce, call_data, call_gas,
        verification_gas, terms, challenge_id, expires_at
      )
      select
        given.id, ${userId}, wallet.id, wallet.network, 'SEND', given.state, case when given.state = 'FAILED' then 'NOT_SENT' end,
        case when given.state = 'CONFIRMED' then given.hash end, case when given.state = 'CONFIRMED' then true end, given.hash, n, '0x', 1, 1,
        '{}', '', now()
      from given
      cross join (select id, network from wallets where user_id = ${userId} limit 1) wallet
      returning id
    )
    insert into wallet_operation_items (operation_id, position, amount_units, to_address, note)
    select id, position, units, ${hex(9, 20)}, note
    from made
    join given using (id)
    cross join lateral generate_series(0, items - 1) position`;
}

async function addDocuments({ dashboard, userId }: Given): Promise<void> {
  const rows = timesFromNow(ROWS).map((at, n) => ({
    id: newDocumentId(),
    number: n + 1,
    kind: n % 4 === 3 ? "CREDIT_NOTE" : "RECEIPT",
    isVoid: n % 9 === 5,
    linkId: newLinkId(new Date(at)),
    units: String(pick(UNITS, n)),
    at: new Date(at).toISOString(),
    facts: ["Café Aurora", "a@example.com", pick(DESCRIPTIONS, n), null, ADDRESS, ADDRESS, 100],
  }));
  await dashboard.world.sql`
    insert into documents (
      id, user_id, kind, year, number, log_index, link_id, network, tx_hash, block_hash, refund_id, amount_units, happened_at, facts,
      voided_at, void_reason
    )
    select
      id, ${userId}, kind, 2026, number, 0, "linkId", 'base-sepolia', sha256(id::bytea), sha256(id::bytea),
      case when kind = 'CREDIT_NOTE' then 'rfd_' || number end, units, at, facts,
      case when "isVoid" then at end, case when "isVoid" then 'REORGANISED' end
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      id text, number int, kind text, "isVoid" boolean, "linkId" text, units numeric, at timestamptz, facts jsonb
    )`;
}

async function addExports({ dashboard, userId }: Given): Promise<void> {
  const rows = timesFromNow(ROWS).map((at, n) => {
    const status = pick(["READY", "READY", "FAILED", "READY", "RUNNING"], n);
    return {
      id: newExportId(),
      format: pick(["csv", "xlsx", "pdf", "datev", "excel_csv"], n),
      status,
      refusal: status === "FAILED" ? pick([...REFUSALS, null], n) : null,
      truncated: status === "READY" && n % 3 === 0,
      at: new Date(at).toISOString(),
    };
  });
  await dashboard.world.sql`
    insert into exports (
      id, user_id, format, request, status, refusal, attempts, rows_done, rows_total, rows_matched, truncated, byte_size, created_at,
      started_at, ready_at, expires_at
    )
    select
      id, ${userId}, format, '{}', status, refusal, 3, 4000, 10000, 1234567, truncated, case when status = 'READY' then 1234567 end, at, at,
      case when status = 'READY' then at end, now() + interval '3 days'
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      id text, format text, status text, refusal text, truncated boolean, at timestamptz
    )`;
}

/** Of one endpoint among those in every state; returns it. */
async function addDeliveries(page: Page, { dashboard, userId }: Given): Promise<string> {
  const { baseUrl, sql } = dashboard.world;
  const ids: string[] = [];
  for (const path of ["orders", "gone", "failing", "stopped"]) {
    const data = { url: `${baseUrl}/${path}/${"long-path/".repeat(path === "orders" ? 1 : 8)}` };
    const made = await page.request.post(`${baseUrl}/v1/webhook-endpoints`, { data });
    ids.push((await made.json()).data.id);
  }
  const [id = "", ...others] = ids;
  await sql`
    update webhook_endpoints
    set enabled = false, disabled_reason = given.reason
    from unnest(${others}::text[], ${["gone", "failing", "by_owner"]}::text[]) given (id, reason)
    where webhook_endpoints.id = given.id`;
  await sql`update webhook_endpoints set failing_since = now() where id = ${id}`;
  await sql`
    insert into events (user_id, type, subject_id, data)
    select ${userId}, 'payment_link.created', 'sample ' || n, '{}'
    from generate_series(1, ${ROWS}::int) n`;
  await sql`
    update webhook_deliveries delivery
    set
      state = case when fault is null then 'DELIVERED' else 'FAILED' end,
      last_error = fault, last_status = case when fault like 'answered%' then 500 when fault is null then 200 end, attempts = n % 9 + 1,
      created_at = now() - make_interval(mins => ${ROWS}::int - n)
    from (
      select id, n, (${DELIVERY_FAULTS}::text[])[n % ${DELIVERY_FAULTS.length}::int + 1] as fault
      from (select id, substring(subject_id from 8)::int as n from events where user_id = ${userId} and starts_with(subject_id, 'sample ')) one
    ) event
    where event.id = delivery.event_id`;
  return id;
}

async function addMembers(page: Page, { dashboard, userId }: Given): Promise<void> {
  const { baseUrl, sql } = dashboard.world;
  for (let n = 0; n < MEMBERS; n++) {
    const { userId: memberId } = await signUp(
      baseUrl,
      `member-${n}-${"of-many-words-".repeat(n % 4)}${Date.now()}@example.com`,
    );
    await sql`
      insert into members (merchant_id, user_id, role, invited_by)
      values (${userId}, ${memberId}, ${pick(["owner", "operator", "accountant", "viewer"], n)}, ${userId})`;
    await page.request.post(`${baseUrl}/v1/members/invitations`, {
      data: { email: newEmail(), role: "viewer" },
    });
  }
}

async function addTrail({ dashboard, userId }: Given): Promise<void> {
  await dashboard.world.sql`
    insert into security_events (user_id, type, actor_id, client_address, details, created_at)
    select
      ${userId}, (array['sign_in', 'api_key_created', 'webhook_endpoint_created', 'settings_changed', 'member_invited'])[n % 5 + 1], ${userId},
      (array['203.0.113.7', '2001:db8:85a3:8d3:1319:8a2e:370:7348', null])[n % 3 + 1],
      (array[
        '{"method":"passkey"}', '{"name":"Shop server with quite a long name"}', '{"url":"https://hooks.example/a/very/long/path/of/an/endpoint/that/goes/on"}', '{}',
        '{"email":"a-person-with-a-long-address@cafe-aurora-and-daughters.example","role":"viewer"}'
      ])[n % 5 + 1]::jsonb,
      now() - make_interval(hours => n)
    from generate_series(1, ${ROWS}::int) n`;
}
