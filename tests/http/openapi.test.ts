/** The OpenAPI document covers every route and status, and real answers fit it: a recorded session is replayed against it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { haveMembers } from "../support/members.ts";
import { moveMoney } from "../support/money-session.ts";
import { expand } from "../support/openapi-document.ts";
import { haveOwners, haveRecovery } from "../support/owners.ts";
import {
  ageCodes,
  newEmail,
  newPasskey,
  readCode,
  signIn,
  signUp,
  verifiedUser,
} from "../support/sign-up.ts";

type Schema = Parameters<typeof z.fromJSONSchema>[0];
type Operation = {
  operationId: string;
  summary?: string;
  security?: Record<string, unknown>[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses?: Record<string, { content?: Record<string, { schema: Schema }> }>;
};
type Document = { paths: Record<string, Record<string, Operation>> };
type Recorded = { method: string; path: string; answer: Answer };

let world: ApiWorld;
/** With what its references stand for in their place. */
let document: Document;
const recorded: Recorded[] = [];

beforeAll(async () => {
  world = await startApiWorld();
  const served = (await openClient(world.baseUrl).get("/openapi-full.json")).body;
  document = expand(served, served) as Document;
  await haveASession();
}, 120_000);
afterAll(() => world?.stop());

/** A client that remembers what it was answered. */
function recording(client: Client): Client {
  const keep = (method: string, path: string) => (answer: Answer) => {
    recorded.push({ method, path: path.split("?")[0] ?? path, answer });
    return answer;
  };
  return {
    ...client,
    get: (path, headers) => client.get(path, headers).then(keep("get", path)),
    post: (path, body, headers) => client.post(path, body, headers).then(keep("post", path)),
    patch: (path, body, headers) => client.patch(path, body, headers).then(keep("patch", path)),
    delete: (path, headers) => client.delete(path, headers).then(keep("delete", path)),
  };
}

/** Every route of accounts, sessions, wallets, keys, networks and health, with the answers a person meets. */
async function haveASession(): Promise<void> {
  const email = newEmail();
  const client = recording(openClient(world.baseUrl));
  for (const path of ["/health", "/health/ready", "/health/live", "/v1/networks", "/v1/networks/currencies"])
    await client.get(path);
  await client.post("/v1/identity/register", { email });
  await client.post("/v1/identity/register", { email });
  await client.post("/v1/identity/register", { email: "nonsense" });
  await client.post("/v1/auth/options", { email });
  await client.post("/v1/email-verification/resend", { email });
  await ageCodes(world.sql, email, 61);
  await client.post("/v1/email-verification/resend", { email });
  await client.post("/v1/test/outbox", { email });
  await client.post("/v1/email-verification/verify", { email, otp: "000000" });
  await client.post("/v1/email-verification/verify", { email, otp: await readCode(client, email) });
  await client.post("/v1/identity/register", { email });
  await client.post("/v1/auth/options", { email });
  await client.get("/v1/wallets/balance");
  await client.get("/v1/auth/me");
  await client.get("/v1/auth/status");
  const passkey = await newPasskey(world.baseUrl);
  const started = await client.post("/v1/wallets/setup/start", {});
  const passkeyResponse = await passkey.register(started.body.passkeyChallenge);
  const done = { challengeId: started.body.challengeId, passkeyResponse };
  await client.post("/v1/wallets/setup/complete", done);
  await client.post("/v1/wallets/setup/complete", done);
  await client.post("/v1/wallets/setup/start", {});
  await client.post("/v1/email-verification/verify", { email, otp: "000000" });
  await client.get("/v1/wallets/balance");
  await client.get("/v1/wallets/balance?network=ethereum");
  await client.get("/v1/wallets/recovery");
  await client.get("/v1/wallets/recovery?network=base");
  await client.get("/v1/wallets/recovery?network=ethereum");
  await client.get("/v1/auth/me");
  await client.patch("/v1/auth/me", { displayName: "Ada" });
  await client.patch("/v1/auth/me", { displayName: "" });
  const options = await client.post("/v1/auth/options", { email });
  const assertion = {
    email,
    challengeId: options.body.challengeId,
    authenticationResponse: await passkey.authenticate(options.body),
  };
  await client.post("/v1/auth/verify", assertion);
  await client.post("/v1/auth/verify", assertion);
  await client.post("/v1/auth/verify", {});
  await client.post("/v1/auth/options", { email: newEmail() });
  const key = await client.post("/v1/api-keys", { name: "Shop", scopes: ["exports"] });
  await client.get("/v1/api-keys");
  await client.delete(`/v1/api-keys/${key.body.data.id}`);
  await client.delete(`/v1/api-keys/${key.body.data.id}`);
  const other = await client.post("/v1/test/token", { email });
  const others = { "x-test-mode": "true", authorization: `Bearer ${other.body.token}` };
  const sessions = await client.get("/v1/auth/sessions", others);
  await client.post("/v1/auth/sessions/revoke-others");
  await client.delete(`/v1/auth/sessions/${sessions.body.data[0].id}`);
  await client.delete("/v1/auth/sessions/nonsense");
  const session = await client.post("/v1/test/token", { email });
  const [, claims = ""] = session.body.token.split(".");
  await client.delete(`/v1/auth/sessions/${JSON.parse(Buffer.from(claims, "base64url").toString()).sid}`);
  const passkeys = await client.get("/v1/auth/passkeys");
  await client.patch(`/v1/auth/passkeys/${passkeys.body.data[0].id}`, { name: "Laptop" });
  await client.patch(`/v1/auth/passkeys/${passkeys.body.data[0].id}`, { name: "" });
  await client.patch("/v1/auth/passkeys/AAAA", { name: "Laptop" });
  await client.get("/v1/security-events?limit=2");
  await client.get("/v1/security-events?limit=0");
  const boss = await signUp(world.baseUrl);
  await haveMembers({ client, email, boss: { ...boss, client: recording(boss.client) } });
  await client.get("/v1/auth/google/authorize");
  await client.get("/v1/auth/google/callback");
  await client.post("/v1/test/token", { email });
  await client.post("/v1/test/token", { email: newEmail() });
  const { rpcUrl } = world.chainOf("base-sepolia");
  await moveMoney({ client, passkey, sql: world.sql, rpcUrl });
  await haveOwners({ client, passkey });
  await tradeAndLook(client);
  await client.post("/v1/auth/logout", undefined, { origin: "https://evil.example" });
  await client.post("/v1/auth/logout");
  await client.post("/v1/auth/logout");
  for (const path of ["/v1/auth/me", "/v1/auth/status", "/v1/api-keys", "/v1/wallets/balance"])
    await client.get(path);
  await haveRecovery({ client, passkey, email, sql: world.sql, rpcUrl });
}

/** Links, their payers' views, x402, history, exports and events, as far as they go without worker and indexer. */
async function tradeAndLook(client: Client): Promise<void> {
  const { body: link } = await client.post("/v1/payment-links", { amount: 1.5, description: "A coffee" });
  await client.post("/v1/payment-links", { amount: 0, description: "" });
  for (const path of ["", `/${link.id}`, "/stats", "/link_AAAAAAAAAAAAAAAAAAAAAA", "?limit=0"])
    await client.get(`/v1/payment-links${path}`);
  const open = `/api/v1/public/payment-links/${link.id}`;
  await client.get(`${open}/data`);
  await client.post(`${open}/complete`, { transactionHash: "0x" });
  for (const path of [`/v1/x402/${link.id}`, `/x402/${link.id}`, "/v1/x402/link_AAAAAAAAAAAAAAAAAAAAAA"]) {
    await client.get(path);
    await client.post(`${path}/pay`, { network: "base-sepolia", payload: {} });
    await client.post(`${path}/pay`, "{");
  }
  await client.post(`/v1/payment-links/${link.id}/cancel`);
  await client.post(`/v1/payment-links/${link.id}/cancel`);
  await client.get(`/v1/x402/${link.id}`);
  for (const query of ["", "?limit=101", "?types=NOPE"]) await client.get(`/v1/transactions${query}`);
  for (const query of ["", "?types=NOPE"]) await client.get(`/v1/transactions/summary${query}`);
  const later = { prefer: "respond-async" };
  const exported = await client.post("/v1/transactions/export", { format: "csv" }, later);
  await client.post("/v1/transactions/export", { format: "docx" });
  await client.get("/v1/transactions/exports");
  await client.get(`/v1/transactions/exports/${exported.body.data.export.id}`);
  await client.get(`/v1/transactions/exports/${exported.body.data.export.id}/download`);
  const monthly = { format: "csv", network: "base-sepolia", month: "2026-01" };
  await client.post("/v1/statements", monthly, later);
  await client.post("/v1/statements", { ...monthly, month: "January" });
  await client.post("/v1/statements", { ...monthly, network: "base" });
  await client.get("/v1/statements");
  await client.get("/v1/settings/books");
  await client.patch("/v1/settings/books", { legalName: "Ada Ltd", monthlyStatements: true });
  await client.patch("/v1/settings/books", { taxId: "" });
  await client.patch("/v1/settings/books", { fiatCurrency: "CHF", rateSource: "own", usdcRate: "source" });
  await client.patch("/v1/settings/books", { rateSource: "unknown" });
  const days = { currency: "CHF", dateFrom: "2026-01-01", dateTo: "2026-01-31" };
  await client.post("/v1/exchange-rates", { ...days, rate: "0.89" });
  await client.post("/v1/exchange-rates", { ...days, rate: "-1" });
  await client.get("/v1/exchange-rates?currency=CHF&dateFrom=2026-01-30&dateTo=2026-02-10");
  await client.get("/v1/exchange-rates?currency=CHF&dateFrom=2026-01-30&dateTo=2025-02-10");
  await client.get("/v1/exchange-rates/sources");
  await client.post("/v1/exchange-rates/own", {
    ...{ currency: "CHF", rates: [{ date: "2026-02-01", rate: "0.9" }] },
  });
  await client.post("/v1/exchange-rates/own", { currency: "CHF", rates: [] });
  await client.get("/v1/exchange-rates/own?currency=CHF");
  await client.get("/v1/exchange-rates/own?currency=CHF&before=2025-02-30");
  await client.get("/v1/export-profiles/columns");
  const profile = { name: "Monthly", format: "csv", columns: [{ column: "net", title: "Amount" }] };
  const { body: saved } = await client.post("/v1/export-profiles", profile);
  await client.post("/v1/export-profiles", profile);
  await client.post("/v1/export-profiles", { ...profile, columns: [{ column: "nothing", title: "X" }] });
  await client.get("/v1/export-profiles");
  await client.get(`/v1/export-profiles/${saved.data.id}`);
  await client.get("/v1/export-profiles/epr_unknown");
  await client.patch(`/v1/export-profiles/${saved.data.id}`, { name: "Yearly" });
  await client.post(`/v1/export-profiles/${saved.data.id}/export`, { dateFrom: "2026-01-01" }, later);
  const schedule = { profileId: saved.data.id, frequency: "weekly", delivery: "webhook" };
  const { body: scheduled } = await client.post("/v1/export-schedules", schedule);
  await client.post("/v1/export-schedules", { ...schedule, profileId: "epr_unknown" });
  await client.post("/v1/export-schedules", { ...schedule, frequency: "daily" });
  await client.get("/v1/export-schedules");
  await client.patch(`/v1/export-schedules/${scheduled.data.id}`, { paused: true });
  await client.patch(`/v1/export-schedules/${scheduled.data.id}`, { paused: "yes" });
  await client.patch("/v1/export-schedules/exs_unknown", { paused: false });
  await client.delete(`/v1/export-schedules/${scheduled.data.id}`);
  await client.delete(`/v1/export-profiles/${saved.data.id}`);
  await client.get("/v1/events");
}

/** The documented path a real one belongs to: exact before parameters. */
function templateOf(path: string): string | undefined {
  if (document.paths[path]) return path;
  return Object.keys(document.paths).find((template) =>
    new RegExp(`^${template.replace(/\{[^}]+\}/g, "[^/]+")}$`).test(path),
  );
}

const operations = () =>
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );

describe("a recorded session", () => {
  test("every answer's status is documented and its body fits the schema exactly", () => {
    expect(recorded.length).toBeGreaterThan(50);
    const faults: string[] = [];
    for (const { method, path, answer } of recorded) {
      const template = templateOf(path);
      const operation = template ? document.paths[template]?.[method] : undefined;
      const response = operation?.responses?.[answer.status];
      const place = `${method.toUpperCase()} ${path} ${answer.status}`;
      if (!response) {
        faults.push(`${place} is not documented`);
        continue;
      }
      const schema = response.content?.["application/json"]?.schema;
      if (answer.status === 302) continue;
      const parsed = schema ? z.fromJSONSchema(closed(schema)).safeParse(answer.body) : undefined;
      if (!parsed) faults.push(`${place} has no schema`);
      else if (!parsed.success) faults.push(`${place}: ${z.prettifyError(parsed.error)}`);
    }
    expect([...new Set(faults)]).toEqual([]);
  });

  test("covers every route of accounts, sessions, wallets, keys, networks and health, with a success of each", () => {
    const met = new Set(
      recorded
        .filter(({ answer }) => answer.status < 300)
        .map(({ method, path }) => `${method} ${templateOf(path)}`),
    );
    const mine =
      /^\/(health|v1\/(identity|email-verification|auth|wallets|api-keys|members|security-events|networks|test))/;
    const missing = operations()
      .filter(({ path }) => mine.test(path) && !path.includes("google"))
      .map(({ method, path }) => `${method} ${path}`)
      .filter((route) => !met.has(route));
    expect(missing).toEqual([]);
  });
});

describe("every operation", () => {
  test("has a summary, a success and the error envelope for 500", () => {
    const faults = operations()
      .filter(({ operation }) => {
        const statuses = Object.keys(operation.responses ?? {});
        return (
          !operation.summary ||
          !statuses.some((status) => /^[23]|402/.test(status)) ||
          !statuses.includes("500")
        );
      })
      .map(({ method, path }) => `${method} ${path}`);
    expect(faults).toEqual([]);
  });

  test("that needs a session declares it, and answers 401 without one", async () => {
    const client = openClient(world.baseUrl);
    const guarded = operations().filter(({ operation }) =>
      operation.security?.some((one) => "session" in one),
    );
    expect(guarded.length).toBeGreaterThan(8);
    for (const { path, method, operation } of guarded) {
      const url = path.replace(/\{[^}]+\}/g, "x_1");
      const answer = await fetch(`${client.baseUrl}${url}`, { method: method.toUpperCase() });
      expect(`${method} ${path} ${answer.status}`).toBe(`${method} ${path} 401`);
      expect(Object.keys(operation.responses ?? {})).toContain("401");
    }
  });

  test("documents its body as JSON", () => {
    for (const { method, path, operation } of operations()) {
      if (!operation.requestBody) continue;
      expect(`${method} ${path} ${Object.keys(operation.requestBody.content)}`).toBe(
        `${method} ${path} application/json`,
      );
    }
  });
});

test("the page at /docs works without a network: it contains no address but our own", async () => {
  const page = await openClient(world.baseUrl).get("/docs");
  expect(page.headers.get("content-type")).toContain("text/html");
  expect(page.text).not.toMatch(/https?:\/\//);
  expect(page.text).toContain("/openapi.json");
});

test("a signed-in user whose session was recorded can still sign in", async () => {
  const merchant = await signUp(world.baseUrl);
  expect((await (await signIn(merchant)).get("/v1/auth/me")).status).toBe(200);
  expect((await verifiedUser(world.baseUrl)).userId).toStartWith("user_");
});

/** The schema with every object closed, so that an undocumented field is a fault. Objects open on purpose stay open. */
function closed(schema: Schema): Schema {
  return JSON.parse(JSON.stringify(schema), (_key, value) => {
    const isObject = value && typeof value === "object" && value.type === "object" && value.properties;
    return isObject && value.additionalProperties === undefined
      ? { ...value, additionalProperties: false }
      : value;
  });
}
