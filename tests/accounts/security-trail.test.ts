/** What the security trail says about changes that outlast the session of whoever made them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { newMember } from "../support/members.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld();
  merchant = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

type Entry = { type: string; actor: { id: string } | null; details: Record<string, unknown> };
const SKIPPED = new Set(["sign_in", "passkey_added", "email_verified", "otp_sent", "member_invited"]);

/** Oldest first, and without the entries of the sign-up and of invitations. */
async function trailOf({ client }: Merchant): Promise<Entry[]> {
  const { body } = await client.get("/v1/security-events?limit=100");
  return body.data.filter(({ type }: Entry) => !SKIPPED.has(type)).reverse();
}
const detailsOf = async (of: Merchant) => (await trailOf(of)).map(({ type, details }) => ({ type, details }));

test("names who added, changed and deleted a webhook endpoint and who rotated its secret, without its path", async () => {
  const { client, userId } = merchant;
  const named = { name: "deployer", scopes: ["webhooks"] };
  const { key, id: keyId } = (await client.post("/v1/api-keys", named)).body.data;
  const program = openClient(world.baseUrl);
  const authorization = `Bearer ${key}`;
  const url = "https://shop.example.com:8443/hooks/a-secret-of-the-shop";
  const made = await program.post("/v1/webhook-endpoints", { url }, { authorization });
  expect(made.status).toBe(201);
  const path = `/v1/webhook-endpoints/${made.body.data.id}`;
  expect((await client.patch(path, { description: "Shop", enabled: false })).status).toBe(200);
  expect((await client.post(`${path}/rotate-secret`)).status).toBe(200);
  expect((await client.delete(path)).status).toBe(200);
  for (const { status } of [
    await client.patch(path, { enabled: true }),
    await client.post(`${path}/rotate-secret`),
    await client.delete(path),
  ])
    expect(status).toBe(404);
  const endpoint = { endpointId: made.body.data.id, host: "shop.example.com:8443" };
  const [, ...told] = await trailOf(merchant);
  expect(told.map(({ type, actor, details }) => [type, actor?.id, details])).toEqual([
    ["webhook_endpoint_created", keyId, endpoint],
    ["webhook_endpoint_changed", userId, { ...endpoint, changed: "description", enabled: false }],
    ["webhook_secret_rotated", userId, endpoint],
    ["webhook_endpoint_deleted", userId, endpoint],
  ]);
});

test("names the bookkeeping settings that changed, without their values", async () => {
  const owner = await signUp(world.baseUrl);
  const { body: settings } = await owner.client.get("/v1/settings/books");
  const save = (change: object) => owner.client.patch("/v1/settings/books", { ...settings, ...change });
  expect((await save({ legalName: "Ann Ltd", postalAddress: "1 Road" })).status).toBe(200);
  expect((await save({ legalName: "Ann Ltd", postalAddress: "1 Road" })).status).toBe(200);
  expect((await save({ legalName: "Ann Ltd", postalAddress: null })).status).toBe(200);
  expect(await detailsOf(owner)).toEqual([
    { type: "settings_changed", details: { changed: "legalName, postalAddress" } },
    { type: "settings_changed", details: { changed: "postalAddress" } },
  ]);
});

test("names which scheduled export and which own rates were changed, and how", async () => {
  const owner = await signUp(world.baseUrl);
  const { client } = owner;
  const profile = await client.post("/v1/export-profiles", { name: "Month", format: "csv" });
  const schedule = { profileId: profile.body.data.id, frequency: "monthly", delivery: "webhook" };
  const made = await client.post("/v1/export-schedules", schedule);
  const path = `/v1/export-schedules/${made.body.data.id}`;
  await client.patch(path, { paused: true });
  await client.patch(path, { paused: false });
  expect((await client.delete(path)).status).toBe(200);
  expect((await client.delete(path)).status).toBe(404);
  const days = { dateFrom: "2026-03-01", dateTo: "2026-03-02" };
  await client.post("/v1/exchange-rates", { currency: "EUR", ...days, rate: "0.9" });
  await client.post("/v1/exchange-rates", { currency: "EUR", ...days, rate: null });
  const rates = [{ date: "2026-03-05", rate: "0.9" }];
  await client.post("/v1/exchange-rates/own", { currency: "EUR", rates });
  const told = await detailsOf(owner);
  expect(told.every(({ type }) => type === "settings_changed")).toBe(true);
  const exported = { name: "Month", scheduleId: made.body.data.id };
  const own = { currency: "EUR", ...days };
  const day = { dateFrom: "2026-03-05", dateTo: "2026-03-05" };
  expect(told.map(({ details }) => details)).toEqual([
    { scheduledExport: "created", ...exported },
    { scheduledExport: "paused", ...exported },
    { scheduledExport: "resumed", ...exported },
    { scheduledExport: "deleted", ...exported },
    { ownRates: "stored", ...own, rate: "0.9" },
    { ownRates: "removed", ...own, rate: null },
    { ownRates: "stored", currency: "EUR", ...day, days: 1 },
  ]);
});

test("names the member whose role changed or who was removed", async () => {
  const owner = await signUp(world.baseUrl);
  const person = await newMember(owner, "viewer");
  await owner.client.patch(`/v1/members/${person.userId}`, { role: "accountant" });
  await owner.client.delete(`/v1/members/${person.userId}`);
  const member = { memberId: person.userId, email: person.email };
  expect(await detailsOf(owner)).toEqual([
    { type: "member_joined", details: { ...member, role: "viewer" } },
    { type: "member_role_changed", details: { ...member, from: "viewer", to: "accountant" } },
    { type: "member_removed", details: { ...member, role: "accountant", isOwnWish: false } },
  ]);
});
