/** Who may call what: every route of the app, for every role, a stranger, a user of another account, and API keys. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { listAppRoutes } from "../support/app-routes.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { actingFor, bookOwnerChange, newMember } from "../support/members.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

/**
 * Roles by their first letters: Owner, oPerator, Accountant, Viewer. "account": the account itself, no member. "self": about the
 * signed-in person, whatever X-Merchant says. A route without an entry fails the test.
 */
const GUARDED: Readonly<Record<string, string>> = {
  "GET /v1/auth/me": "self",
  "PATCH /v1/auth/me": "self",
  "GET /v1/auth/status": "self",
  "POST /v1/auth/logout": "self",
  "GET /v1/auth/sessions": "self",
  "DELETE /v1/auth/sessions/:id": "self",
  "POST /v1/auth/sessions/revoke-others": "self",
  "GET /v1/auth/google/accounts": "self",
  "POST /v1/auth/google/link": "self",
  "DELETE /v1/auth/google/accounts/:id": "self",
  "GET /v1/auth/passkeys": "self",
  "PATCH /v1/auth/passkeys/:id": "self",
  "GET /v1/auth/invitations": "self",
  "POST /v1/auth/invitations/:id/accept": "self",
  "POST /v1/auth/invitations/:id/decline": "self",
  "POST /v1/auth/recover/passkey/start": "self",
  "POST /v1/auth/recover/passkey/complete": "self",
  "POST /facilitator/settle": "self",
  "POST /mcp": "self",
  "POST /v1/wallets/setup/start": "account",
  "POST /v1/wallets/setup/complete": "account",
  "POST /v1/wallets/owners/passkey/start": "account",
  "POST /v1/wallets/owners/address/start": "account",
  "GET /v1/wallets/balance": "OPAV",
  "GET /v1/wallets/owners": "OPAV",
  "GET /v1/wallets/owners/changes/:id": "OPAV",
  "GET /v1/wallets/recovery": "O",
  "POST /v1/wallets/owners/prepare": "O",
  "POST /v1/wallets/owners/confirm": "O",
  "POST /v1/wallets/owners/changes/:id/cancel": "O",
  "POST /v1/wallets/send/prepare": "O",
  "POST /v1/wallets/send/confirm": "O",
  "POST /v1/wallets/sends/:id/void": "O",
  "POST /v1/wallets/sends/:id/cancel": "O",
  "GET /v1/wallets/sends": "OPAV",
  "GET /v1/wallets/sends/:id": "OPAV",
  "POST /v1/payment-links/:id/refunds": "O",
  "POST /v1/refunds/:id/prepare": "O",
  "POST /v1/refunds/:id/confirm": "O",
  "POST /v1/refunds/:id/void": "O",
  "POST /v1/refunds/:id/cancel": "O",
  "POST /v1/payment-links/:id/refund-requests": "OP",
  "GET /v1/payment-links/:id/refunds": "OPAV",
  "GET /v1/refunds": "OPAV",
  "GET /v1/refunds/:id": "OPAV",
  "POST /v1/payment-links": "OP",
  "POST /v1/payment-links/:id/cancel": "OP",
  "PATCH /v1/payment-links/:id": "OP",
  "GET /v1/payment-links": "OPAV",
  "GET /v1/payment-links/stats": "OPAV",
  "GET /v1/payment-links/:id": "OPAV",
  "GET /v1/payment-links/:id/payments": "OPAV",
  "GET /v1/payment-links/:id/receipt": "OPAV",
  "POST /v1/documents/archive": "OA",
  "GET /v1/documents": "OPAV",
  "GET /v1/documents/:id": "OPAV",
  "GET /v1/transactions": "OPAV",
  "GET /v1/transactions/summary": "OPAV",
  "POST /v1/transactions/export": "OA",
  "GET /v1/transactions/exports": "OA",
  "GET /v1/transactions/exports/:id": "OA",
  "GET /v1/transactions/exports/:id/download": "OA",
  "POST /v1/transactions/:id/assign": "O",
  "POST /v1/transactions/:id/unassign": "O",
  "GET /v1/events": "OPAV",
  "GET /v1/events/stream": "OPAV",
  "GET /v1/members": "OPAV",
  "POST /v1/members/leave": "OPAV",
  "GET /v1/members/invitations": "O",
  "POST /v1/members/invitations": "O",
  "DELETE /v1/members/invitations/:id": "O",
  "PATCH /v1/members/:userId": "O",
  "DELETE /v1/members/:userId": "O",
  "GET /v1/settings": "OPAV",
  "PATCH /v1/settings": "O",
  "POST /v1/statements": "OA",
  "GET /v1/statements": "OA",
  "GET /v1/export-profiles/columns": "OA",
  "GET /v1/export-profiles": "OA",
  "POST /v1/export-profiles": "OA",
  "GET /v1/export-profiles/:id": "OA",
  "PATCH /v1/export-profiles/:id": "OA",
  "DELETE /v1/export-profiles/:id": "OA",
  "POST /v1/export-profiles/:id/export": "OA",
  "GET /v1/export-schedules": "OA",
  "POST /v1/export-schedules": "OA",
  "PATCH /v1/export-schedules/:id": "OA",
  "DELETE /v1/export-schedules/:id": "OA",
  "GET /v1/exchange-rates/sources": "OA",
  "GET /v1/exchange-rates": "OA",
  "POST /v1/exchange-rates": "OA",
  "GET /v1/exchange-rates/own": "OA",
  "POST /v1/exchange-rates/own": "OA",
  "GET /v1/settings/books": "OPAV",
  "PATCH /v1/settings/books": "O",
  "GET /v1/settings/pages": "OPAV",
  "PATCH /v1/settings/pages": "O",
  "POST /v1/settings/pages/logo": "O",
  "DELETE /v1/settings/pages/logo": "O",
  "GET /v1/settings/return-secret": "O",
  "POST /v1/settings/return-secret/rotate": "O",
  "GET /v1/security-events": "O",
  "POST /v1/api-keys": "O",
  "GET /v1/api-keys": "O",
  "DELETE /v1/api-keys/:id": "O",
  "POST /v1/webhook-endpoints": "O",
  "GET /v1/webhook-endpoints": "O",
  "GET /v1/webhook-endpoints/:id": "O",
  "PATCH /v1/webhook-endpoints/:id": "O",
  "DELETE /v1/webhook-endpoints/:id": "O",
  "POST /v1/webhook-endpoints/:id/rotate-secret": "O",
  "POST /v1/webhook-endpoints/:id/test": "O",
  "GET /v1/webhook-endpoints/:id/deliveries": "O",
  "GET /v1/webhook-deliveries/:id": "O",
  "POST /v1/webhook-deliveries/:id/redeliver": "O",
};

/** Routes that anybody may call: an account's data is not behind them, or the link's id is what entitles to it. */
const PUBLIC: readonly RegExp[] = [
  /^OPTIONS /,
  /^(GET|POST) (\/v1)?\/x402\/:linkId(\/pay)?$/,
  /^GET (\/v1)?\/x402\/:linkId\/payments\/:paymentId$/,
  /^GET \/api\/v1\/public\/payment-links\/:linkId\/(data|events|receipt)$/,
  /^GET \/api\/v1\/public\/documents\/:id$/,
  /^POST \/api\/v1\/public\/payment-links\/:linkId\/(complete|uses)$/,
  /^(GET|POST) \/pay\/:linkId$/,
  /^GET \/pay\/:linkId\/receipt$/,
  /^GET \/(openapi(-full)?\.json|llms\.txt|docs(\/:page|\/reference\/:tag)?|health|health\/ready|health\/live|embed\.js|leave|\.well-known\/(webauthn|did\.json|x402|x402\.json))$/,
  /^GET \/(assets|looks)\/:file$/,
  /^GET \/v1\/networks(\/currencies)?$/,
  /^POST \/v1\/identity\/register$/,
  /^POST \/v1\/email-verification\/(verify|resend)$/,
  /^POST \/v1\/auth\/(options|verify|recover|recover\/start|recover\/code)$/,
  /^GET \/v1\/auth\/google\/(authorize|callback)$/,
  /^(GET \/facilitator\/(supported|discovery\/resources)|POST \/facilitator\/verify)$/,
  /^POST \/v1\/test\/(token|outbox|wallet)$/,
  // the dashboard's shell, which holds nothing of an account
  /^GET \/(dashboard|sign-in|email-verification|wallet-setup|recover|invitations|members|links|links\/:id|transactions|documents|statements|exports|saved-exports|exchange-rates|wallet|send|payout|developers\/keys|developers\/webhooks|security|settings)?$/,
];

const LETTERS = { O: "owner", P: "operator", A: "accountant", V: "viewer" } as const;
type Letter = keyof typeof LETTERS;

let world: ApiWorld;
let merchant: Merchant;
let outsider: Merchant;
let foreignKey: string;
let linkId: string;
let routes: Awaited<ReturnType<typeof listAppRoutes>>;
const people = new Map<Letter, Merchant>();

beforeAll(async () => {
  // nobody renders exports
  world = await startApiWorld({ env: { EXPORT_WAIT_MS: "20", FACILITATOR: "1" } });
  routes = await listAppRoutes();
  merchant = await signUp(world.baseUrl);
  outsider = await signUp(world.baseUrl);
  for (const letter of ["O", "P", "A", "V"] as const)
    people.set(letter, await newMember(merchant, LETTERS[letter]));
  const owner = { merchant, person: personOf("O") };
  await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: true });
  const scopes = [
    ...["links:read", "links:write", "transactions:read", "wallet:read"],
    ...["exports", "webhooks", "refunds:request"],
  ];
  foreignKey = (await outsider.client.post("/v1/api-keys", { name: "other", scopes })).body.data.key;
  linkId = (await merchant.client.post("/v1/payment-links", { amount: 3, description: "canary-text" })).body
    .id;
}, 120_000);
afterAll(() => world?.stop());

function personOf(letter: Letter): Merchant {
  const person = people.get(letter);
  if (!person) throw new Error(`no ${letter}`);
  return person;
}

/** An id that parses wherever it stands, of nothing that exists. */
function pathWithIds(path: string): string {
  return path
    .replace(":userId", "user_00000000-0000-4000-8000-000000000000")
    .replace(/(\/members\/invitations\/):id/, "$1inv_AAAAAAAAAAAAAAAAAAAAAA")
    .replace(/(\/payment-links\/):id$/, `$1${linkId}`)
    .replace(/:id/, "none_AAAAAAAAAAAAAAAAAAAAAA");
}

/** The stream does not end: its status is enough. */
async function call(
  client: Client,
  { method, path }: { method: string; path: string },
  headers: Record<string, string>,
): Promise<Pick<Answer, "status" | "body" | "text">> {
  const target = pathWithIds(path);
  if (path === "/v1/events/stream") {
    const cookie = [...client.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const aborted = new AbortController();
    const answer = await fetch(`${world.baseUrl}${target}`, {
      headers: { cookie, ...headers },
      signal: aborted.signal,
    });
    const body = answer.ok ? undefined : await answer.json();
    aborted.abort();
    return { status: answer.status, body, text: JSON.stringify(body ?? "") };
  }
  if (method === "GET") return client.get(target, headers);
  if (method === "DELETE") return client.delete(target, headers);
  return method === "PATCH" ? client.patch(target, {}, headers) : client.post(target, {}, headers);
}

const nameOf = ({ method, path }: { method: string; path: string }) => `${method} ${path}`;
const rolesOf = (route: { method: string; path: string }) => GUARDED[nameOf(route)];
const isRoleRoute = (route: { method: string; path: string }) => /^[OPAV]+$/.test(rolesOf(route) ?? "");
/** Leaving ends the membership under test; tests/members/members.test.ts covers it. */
const isProbed = (route: { method: string; path: string }) => nameOf(route) !== "POST /v1/members/leave";

test("every route is public or guarded, and each guarded one names what it needs", () => {
  const unnamed = routes.filter((route) =>
    route.needs === undefined ? !PUBLIC.some((one) => one.test(nameOf(route))) : rolesOf(route) === undefined,
  );
  expect(unnamed.map(nameOf)).toEqual([]);
  const known = new Set(routes.filter(({ needs }) => needs !== undefined).map(nameOf));
  expect(Object.keys(GUARDED).filter((name) => !known.has(name))).toEqual([]);
});

describe.each(["O", "P", "A", "V"] as const)("a member (%s)", (letter) => {
  test("may call exactly the routes that the role allows", async () => {
    const { client } = personOf(letter);
    const faults: string[] = [];
    for (const route of routes.filter(isRoleRoute).filter(isProbed)) {
      const { status, body } = await call(client, route, actingFor(merchant));
      const isRefused = status === 403 && body.error.details.issue === "role_not_allowed";
      const isAllowed = status !== 401 && status !== 403 && status < 500;
      const isMeant = rolesOf(route)?.includes(letter) ?? false;
      if (isMeant ? !isAllowed : !isRefused)
        faults.push(`${nameOf(route)}: ${status} ${body?.error?.message}`);
    }
    expect(faults).toEqual([]);
  }, 120_000);

  test("may not do what only the account itself may, and sees their own account where X-Merchant has no meaning", async () => {
    const { client, userId } = personOf(letter);
    for (const route of routes.filter((one) => rolesOf(one) === "account")) {
      const { status, body } = await call(client, route, actingFor(merchant));
      expect(`${nameOf(route)} ${status} ${body.error.details.issue}`).toBe(
        `${nameOf(route)} 403 role_not_allowed`,
      );
    }
    expect((await client.get("/v1/auth/me", actingFor(merchant))).body.id).toBe(userId);
  });

  test("sees the merchant's link with X-Merchant or the query, and not without", async () => {
    const { client } = personOf(letter);
    const seen = await client.get("/v1/payment-links", actingFor(merchant));
    expect(seen.body.links.map(({ id }: { id: string }) => id)).toEqual([linkId]);
    const asQuery = await client.get(`/v1/payment-links?merchant=${merchant.userId}`);
    expect(asQuery.body.links).toHaveLength(1);
    expect((await client.get("/v1/payment-links")).body.links).toEqual([]);
    expect((await client.get(`/v1/payment-links/${linkId}`)).status).toBe(404);
  });
});

describe("a person who is not a member", () => {
  const refusals = async (client: Client, headers: Record<string, string>) => {
    const answers: Record<string, number> = {};
    for (const route of routes.filter((one) => isRoleRoute(one) || rolesOf(one) === "account")) {
      const { status, body, text } = await call(client, route, headers);
      const issue = body?.error?.details?.issue ?? "";
      answers[`${status} ${issue}`] = (answers[`${status} ${issue}`] ?? 0) + 1;
      expect(text).not.toContain("canary-text");
      expect(text).not.toContain(merchant.email);
    }
    return Object.keys(answers);
  };

  test("gets 403 not_a_member on every guarded route, signed in", async () => {
    expect(await refusals(outsider.client, actingFor(merchant))).toEqual(["403 not_a_member"]);
  }, 120_000);

  test("gets the same for a merchant that does not exist, so that ids cannot be tried", async () => {
    const headers = { "x-merchant": "user_00000000-0000-4000-8000-000000000000" };
    const missing = await outsider.client.get("/v1/payment-links", headers);
    const other = await outsider.client.get("/v1/payment-links", actingFor(merchant));
    expect(missing.status).toBe(403);
    expect(missing.body.error).toEqual(other.body.error);
  });

  test("gets 401 on every guarded route without a session", async () => {
    expect(await refusals(openClient(world.baseUrl), actingFor(merchant))).toEqual(["401 "]);
  }, 120_000);

  test("gets 403 with an API key of another account", async () => {
    const headers = { ...actingFor(merchant), authorization: `Bearer ${foreignKey}` };
    const issues = await refusals(openClient(world.baseUrl), headers);
    expect(issues.toSorted()).toEqual(["403 not_a_member", "403 session_required"]);
  }, 120_000);
});

test("a member as owner acts as operator until their own passkey owns the wallet, and again once it is removed", async () => {
  const person = await newMember(merchant, "owner");
  const owner = { merchant, person };
  const issueOf = async (path: string) =>
    (await person.client.get(path, actingFor(merchant))).body.error?.details?.issue ?? "allowed";
  const both = async () => [await issueOf("/v1/api-keys"), await issueOf("/v1/payment-links")];
  expect(await both()).toEqual(["role_not_allowed", "allowed"]);
  await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: false });
  expect(await both()).toEqual(["role_not_allowed", "allowed"]);
  await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: true });
  expect(await both()).toEqual(["allowed", "allowed"]);
  await bookOwnerChange(world.sql, owner, { type: "OWNER_REMOVED", isDeep: false });
  expect(await both()).toEqual(["role_not_allowed", "allowed"]);
});

test.each([
  ["nonsense", ""],
  ["user_nonsense", ""],
  [undefined, "?merchant="],
  [undefined, "?merchant=a&merchant=b"],
])("error: 400 for X-Merchant %s with the query %s", async (header, query) => {
  const answer = await outsider.client.get(
    `/v1/payment-links${query}`,
    header ? { "x-merchant": header } : {},
  );
  expect(answer.status).toBe(400);
  expect(answer.body.error.details.field).toBe("X-Merchant");
});

test("error: 400 when header and query name different merchants", async () => {
  const headers = actingFor(merchant);
  const answer = await outsider.client.get(`/v1/payment-links?merchant=${outsider.userId}`, headers);
  expect(answer.status).toBe(400);
});
