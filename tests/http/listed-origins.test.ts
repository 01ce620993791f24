/** Pages on other subdomains: those in RP_ORIGINS may act with the session cookie, all others may not. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import type { Client } from "../support/http-client.ts";
import { verifiedUser } from "../support/sign-up.ts";

const DASHBOARD = "https://dashboard.pay.example";
let world: ApiWorld;
let client: Client;

beforeAll(async () => {
  world = await startApiWorld({ env: { RP_ORIGINS: DASHBOARD } });
  ({ client } = await verifiedUser(world.baseUrl));
}, 120_000);
afterAll(() => world?.stop());

const act = (headers: Record<string, string>) => client.post("/v1/wallets/setup/start", {}, headers);

test.each(["same-site", "cross-site"])("a listed origin is accepted, even as %s", async (site) => {
  expect((await act({ origin: DASHBOARD, "sec-fetch-site": site })).status).toBe(200);
});

test.each<[Record<string, string>]>([
  [{ origin: "https://blog.pay.example", "sec-fetch-site": "same-site" }],
  [{ origin: "http://dashboard.pay.example", "sec-fetch-site": "same-site" }],
  [{ origin: `${DASHBOARD}:8443`, "sec-fetch-site": "same-site" }],
  [{ "sec-fetch-site": "same-site" }],
])("error: 403 for %j", async (headers) => {
  const answer = await act(headers);
  expect(answer.status).toBe(403);
  expect(answer.body.error.details).toEqual({ field: "origin", issue: "cross_site" });
});
