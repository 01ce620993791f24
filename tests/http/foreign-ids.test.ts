/** Real ids of another merchant's things, of every kind, in the path of every route that takes one, in bodies and in queries. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { API_KEY_SCOPES } from "../../core/domain/api-key-scopes.ts";
import { connectHttp } from "../mcp/mcp-client.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { listAppRoutes } from "../support/app-routes.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { actingFor, bookOwnerChange, newMember } from "../support/members.ts";
import { KINDS, ownEverything } from "../support/one-of-everything.ts";
import { type Merchant, newPasskey, signIn, signUp } from "../support/sign-up.ts";
import { LISTS, type Person, PROBES } from "./routes-with-ids.ts";

/** Tables with rows of the victim; a snapshot without one of them would compare nothing. */
const TABLES = [
  ...["api_keys", "challenges", "documents", "events", "export_profiles", "export_schedules", "exports"],
  ...["identities", "member_invitations", "members", "owner_changes", "passkeys", "payment_links", "refunds"],
  ...["security_events", "sessions", "transactions", "transfers", "users", "wallet_operations", "wallets"],
  ...["webhook_deliveries", "webhook_endpoints"],
];

const WORD = "canary";

let world: ApiWorld;
let victim: Person;
let thief: Person;
/** Was an owner among the victim's members, and signed in again after the removal. */
let former: Merchant;
let thiefKey: string;
/** Made by the former member for the victim. */
let formerKey: string;
/** What the victim prepared, signed by the thief's passkey. */
const signed: Record<"send" | "refund" | "ownerChange", unknown> = { send: {}, refund: {}, ownerChange: {} };
let ownerIdOfVictim: string;
/** Creation options that the victim asked for, answered by a passkey of the thief's device. */
let creation: { challengeId: string; passkeyResponse: unknown };
/** `nextCursor` of the victim's lists by their path. */
const cursors: Record<string, string> = {};
let before: string[];

beforeAll(async () => {
  world = await startApiWorld({ env: { EXPORT_WAIT_MS: "20", FACILITATOR: "1" } });
  const { rpcUrl } = world.chainOf("base-sepolia");
  const own = async (word: string, account: number): Promise<Person> => {
    const merchant = await signUp(world.baseUrl);
    return { ...merchant, ...(await ownEverything(merchant, { sql: world.sql, rpcUrl, word, account })) };
  };
  victim = await own(WORD, 6);
  thief = await own("thief", 7);
  const made = await thief.client.post("/v1/api-keys", { name: "all", scopes: API_KEY_SCOPES });
  thiefKey = made.body.data.key;

  const person = await newMember(victim, "owner");
  const owner = { merchant: victim, person };
  await bookOwnerChange(world.sql, owner, { type: "OWNER_ADDED", isDeep: true });
  const key = { name: "former", scopes: API_KEY_SCOPES };
  formerKey = (await person.client.post("/v1/api-keys", key, actingFor(victim))).body.data.key;
  await bookOwnerChange(world.sql, owner, { type: "OWNER_REMOVED", isDeep: true });
  expect((await victim.client.delete(`/v1/members/${person.userId}`)).status).toBe(200);
  former = { ...person, client: await signIn(person) };

  for (const kind of ["send", "refund", "ownerChange"] as const) {
    const { challengeId, passkeyChallenge } = victim[kind];
    const passkeyResponse = await thief.passkey.authenticate({ ...passkeyChallenge, allowCredentials: [] });
    signed[kind] = { challengeId, passkeyResponse };
  }
  const { body: started } = await victim.client.post("/v1/wallets/owners/passkey/start");
  const passkeyResponse = await (await newPasskey(world.baseUrl)).register(started.passkeyChallenge);
  creation = { challengeId: started.challengeId, passkeyResponse };
  ownerIdOfVictim = (await victim.client.get("/v1/wallets/owners")).body.owners[0].ownerId;
  for (const path of LISTS) cursors[path] = await cursorOf(victim.client, withIds(path, victim));
  before = await snapshot();
}, 120_000);
afterAll(() => world?.stop());

/** What must not reach anybody else. */
function secrets(): string[] {
  const { userId, email, walletAddress, txHash } = victim;
  return [
    WORD,
    userId,
    email,
    walletAddress,
    walletAddress.toLowerCase(),
    txHash,
    ...Object.values(victim.ids),
  ];
}

const leaksIn = (text: string, asked: string) =>
  secrets().filter((secret) => text.includes(secret) && !asked.includes(secret));
const leaksOf = ({ text }: Answer, asked: string) => leaksIn(text, asked);

/** Every row of the database that names the victim or a thing of the victim's. */
async function snapshot(): Promise<string[]> {
  const { sql } = world;
  const { userId, walletAddress, txHash } = victim;
  const marks = [WORD, userId.slice(5), walletAddress.slice(2).toLowerCase(), txHash.slice(2)];
  const named = [...marks, ...Object.values(victim.ids)];
  const tables = await sql<{ tablename: string }[]>`
    select tablename from pg_tables where schemaname = 'public' order by tablename`;
  const rows: string[] = [];
  for (const { tablename } of tables) {
    const found = await sql<{ row: string }[]>`select to_jsonb(one)::text as row from ${sql(tablename)} one`;
    for (const { row } of found)
      if (named.some((mark) => row.includes(mark))) rows.push(`${tablename} ${row}`);
  }
  return rows.toSorted();
}

function ask(client: Client, name: string, id: string, body: unknown, headers: Record<string, string> = {}) {
  const [method, path = ""] = name.split(" ");
  const target = path.replace(/:(id|userId)/, id);
  if (method === "GET") return client.get(target, headers);
  if (method === "DELETE") return client.delete(target, headers);
  return method === "PATCH" ? client.patch(target, body ?? {}, headers) : client.post(target, body, headers);
}

const withIds = (path: string, { ids }: Person) => path.replace(":endpoint", ids.endpoint);

async function cursorOf(client: Client, path: string): Promise<string> {
  const { status, body } = await client.get(`${path}?limit=1`);
  const cursor =
    body.nextCursor ??
    body.data?.nextCursor ??
    body.pagination?.nextCursor ??
    body.data?.pagination?.nextCursor;
  if (status !== 200 || !cursor) throw new Error(`no cursor of ${path}: ${JSON.stringify(body)}`);
  return cursor;
}

/** The same format, of nothing. */
function missing(id: string): string {
  const at = id.length - 4;
  return `${id.slice(0, at)}${id[at] === "a" ? "b" : "a"}${id.slice(at + 1)}`;
}

const issueOf = ({ status, body }: Answer) =>
  `${status} ${body?.error?.code}${body?.error?.details?.issue ? ` ${body.error.details.issue}` : ""}`;

test("every guarded route with an id in its path is probed, and every kind of thing", async () => {
  const routes = (await listAppRoutes()).filter(
    ({ needs, path }) => needs !== undefined && path.includes(":"),
  );
  const named = routes.map(({ method, path }) => `${method} ${path}`);
  expect([...new Set(PROBES.map(({ name }) => name))].toSorted()).toEqual(named.toSorted());
  expect([...new Set(PROBES.map(({ kind }) => kind))].toSorted()).toEqual(KINDS.toSorted());
  const tables = new Set(before.map((row) => row.split(" ")[0]));
  expect(TABLES.filter((table) => !tables.has(table))).toEqual([]);
});

describe("with the id of another merchant's thing in the path", () => {
  /** Calls every route with the victim's ids and with ids of nothing: both must be refused alike. */
  async function sweep(
    client: Client,
    headers: Record<string, string>,
    mayBe: (answer: Answer) => boolean,
  ): Promise<string[]> {
    const faults: string[] = [];
    for (const { name, kind, body } of PROBES) {
      const id = victim.ids[kind];
      const given = body?.(thief, signed.refund);
      const answer = await ask(client, name, id, given, headers);
      const shown = leaksOf(answer, id);
      const other = await ask(client, name, missing(id), given, headers);
      const isValid = typeof answer.body?.error?.message === "string" && answer.body.meta?.requestId;
      if (!mayBe(answer) || !isValid) faults.push(`${name} ${answer.status} ${answer.text}`);
      if (shown.length > 0) faults.push(`${name} shows ${shown}`);
      if (answer.status !== other.status || !Bun.deepEquals(answer.body.error, other.body.error))
        faults.push(`${name} tells apart ${answer.text} and ${other.text}`);
    }
    return faults;
  }

  const isMissing = (answer: Answer) => issueOf(answer) === "404 NOT_FOUND";

  test("error: 404 for a signed-in merchant", async () => {
    expect(await sweep(thief.client, {}, isMissing)).toEqual([]);
  }, 60_000);

  test("error: 404 for an API key with every scope, or 403 where a session is required", async () => {
    const seen = new Set<string>();
    const mayBe = (answer: Answer) => {
      seen.add(issueOf(answer));
      return isMissing(answer) || issueOf(answer) === "403 FORBIDDEN session_required";
    };
    const headers = { authorization: `Bearer ${thiefKey}` };
    expect(await sweep(openClient(world.baseUrl), headers, mayBe)).toEqual([]);
    expect(seen.size).toBe(2);
  }, 60_000);

  test("error: 404 for a former member, and 403 with X-Merchant", async () => {
    expect(await sweep(former.client, {}, isMissing)).toEqual([]);
    // the rest is about the person, whatever X-Merchant says
    const isRefused = (answer: Answer) =>
      isMissing(answer) || issueOf(answer) === "403 FORBIDDEN not_a_member";
    expect(await sweep(former.client, actingFor(victim), isRefused)).toEqual([]);
  }, 60_000);

  test("error: 401 for an API key that a former member made for the merchant", async () => {
    const headers = { authorization: `Bearer ${formerKey}` };
    const isRefused = ({ status }: Answer) => status === 401;
    expect(await sweep(openClient(world.baseUrl), headers, isRefused)).toEqual([]);
  }, 60_000);
});

describe("with the id of another merchant's thing in a body", () => {
  type Named = [what: string, path: string, body: () => unknown, refusal: string | RegExp];
  const addition = (add: object) => ({ add });
  const NAMED: readonly Named[] = [
    [
      "a link to assign one's own transaction to",
      "/v1/transactions/:transaction/assign",
      () => ({ linkId: victim.ids.link, accept: true }),
      "404 NOT_FOUND",
    ],
    [
      "a saved export to schedule",
      "/v1/export-schedules",
      () => ({ profileId: victim.ids.profile, frequency: "weekly", delivery: "mail" }),
      "404 NOT_FOUND",
    ],
    [
      "a send to confirm",
      "/v1/wallets/send/confirm",
      () => ({ sendId: victim.ids.send, ...Object(signed.send) }),
      "404 NOT_FOUND",
    ],
    [
      "a challenge to confirm one's own send with",
      "/v1/wallets/send/confirm",
      () => ({ sendId: thief.ids.send, ...Object(signed.send) }),
      /^400 VALIDATION_ERROR/,
    ],
    [
      "an owner change to confirm",
      "/v1/wallets/owners/confirm",
      () => ({ ownerChangeId: victim.ids.ownerChange, ...Object(signed.ownerChange) }),
      "404 NOT_FOUND",
    ],
    [
      "a member to add as an owner",
      "/v1/wallets/owners/prepare",
      () => addition({ type: "member", userId: victim.ids.member }),
      "404 NOT_FOUND",
    ],
    [
      "an account to add as an owner",
      "/v1/wallets/owners/prepare",
      () => addition({ type: "member", userId: victim.userId }),
      "404 NOT_FOUND",
    ],
    [
      "a challenge to create one's own passkey with",
      "/v1/wallets/owners/prepare",
      () => addition({ type: "passkey", ...creation }),
      /^400 VALIDATION_ERROR/,
    ],
    [
      "an owner to remove",
      "/v1/wallets/owners/prepare",
      () => ({ network: "base-sepolia", remove: { ownerId: ownerIdOfVictim } }),
      "404 NOT_FOUND",
    ],
    [
      "a user to make a link for",
      "/v1/payment-links",
      () => ({ userId: victim.userId, amount: 1, description: "x" }),
      "403 FORBIDDEN",
    ],
    [
      "a user to export the transactions of",
      "/v1/transactions/export",
      () => ({ userId: victim.userId, format: "json", proof: true }),
      "403 FORBIDDEN",
    ],
    [
      "a network where only others have a wallet",
      "/v1/statements",
      () => ({ network: "base", format: "json", month: "2026-01" }),
      "404 NOT_FOUND",
    ],
  ];

  test.each(NAMED)("error: %s is refused", async (_what, path, body, refusal) => {
    const answer = await thief.client.post(path.replace(":transaction", thief.ids.transaction), body());
    expect(issueOf(answer)).toMatch(refusal);
    expect(leaksOf(answer, JSON.stringify(body()))).toEqual([]);
  });
});

describe("with what names another merchant's things in a query", () => {
  test.each(LISTS)("the cursor of another's list shows nothing of it: %s", async (path) => {
    const cursor = cursors[path] ?? "";
    const answer = await thief.client.get(`${withIds(path, thief)}?limit=50&cursor=${cursor}`);
    if (answer.status !== 200) expect(issueOf(answer)).toMatch(/^400 VALIDATION_ERROR/);
    expect(leaksOf(answer, cursor)).toEqual([]);
  });

  test("filters by another's things select nothing", async () => {
    const { ids, txHash } = victim;
    for (const [path, list] of [
      [`/v1/documents?linkId=${ids.paidLink}`, "documents"],
      [`/v1/payment-links?reference=${WORD}-open`, "links"],
      [`/v1/transactions?search=${txHash}`, "data.transactions"],
      [`/v1/transactions?search=${WORD}`, "data.transactions"],
    ] as const) {
      const answer = await thief.client.get(path);
      expect(answer.status).toBe(200);
      expect(list.split(".").reduce((value, name) => value[name], answer.body)).toEqual([]);
    }
    for (const path of [
      `/v1/documents?cursor=${ids.document}`,
      `/v1/payment-links/${thief.ids.paidLink}/receipt?transactionId=${ids.paidTransaction}`,
      `/v1/wallets/balance?network=base`,
      `/v1/wallets/owners?network=base`,
      `/v1/wallets/recovery?network=base`,
    ]) {
      const answer = await thief.client.get(path);
      expect(`${path} ${answer.status}`).toMatch(/ 40[04]$/);
      expect(leaksOf(answer, path)).toEqual([]);
    }
  });
});

test("the tools for agents find nothing by another merchant's ids", async () => {
  const mcp = await connectHttp(world.baseUrl, thiefKey);
  const { link, paidLink } = victim.ids;
  for (const [tool, args] of [
    ["get_link", { id: link }],
    ["wait_for_payment", { id: paidLink, timeoutSeconds: 5 }],
    ["request_refund", { linkId: paidLink, amount: 0.01 }],
    ["get_link", { reference: `${WORD}-open` }],
    ["list_transactions", { search: victim.txHash }],
  ] as const) {
    const { isError, text } = await mcp.call(tool, args);
    const isNamed = "id" in args || "linkId" in args;
    expect(isError).toBe(isNamed);
    if (isNamed) expect(text).toContain("Payment link not found");
    expect(leaksIn(text, JSON.stringify(args))).toEqual([]);
  }
  await mcp.close();
});

test("after all of that, every row of the victim is as it was", async () => {
  expect(await snapshot()).toEqual(before);
});

test("an Idempotency-Key of another merchant replays nothing", async () => {
  const { body: own } = await victim.client.get("/v1/wallets/sends?limit=1");
  const order = { amount: 2, description: `${WORD} order` };
  const send = { to: own.sends[0].payments[0].to, amount: "0.5" };
  const asked = { amount: "0.01" };
  const calls = (by: Person) => [
    ["/v1/payment-links", order],
    ["/v1/wallets/send/prepare", send],
    [`/v1/payment-links/${by.ids.paidLink}/refunds`, asked],
    [`/v1/payment-links/${by.ids.paidLink}/refund-requests`, asked],
  ];
  for (const [at, [path = "", body]] of calls(victim).entries()) {
    const headers = { "idempotency-key": "the-same-key" };
    const first = await victim.client.post(String(path), body, headers);
    const [thiefsPath = ""] = calls(thief)[at] ?? [];
    const second = await thief.client.post(String(thiefsPath), body, headers);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.headers.get("idempotent-replayed")).toBeNull();
    const idOf = ({ body }: Answer) => body.sendId ?? body.refundId ?? body.id;
    expect(idOf(second)).not.toBe(idOf(first));
    expect(leaksOf(second, JSON.stringify(body))).toEqual([]);
  }
});

test("control: to their owner, each of these ids is real", async () => {
  const faults: string[] = [];
  for (const { name, kind, body, own } of PROBES) {
    const answer = await ask(victim.client, name, victim.ids[kind], body?.(victim, signed.refund));
    const isMeant = own === undefined ? answer.status >= 200 && answer.status < 300 : answer.status === own;
    if (!isMeant) faults.push(`${name} ${answer.status} ${answer.text}`);
  }
  expect(faults).toEqual([]);
}, 60_000);
