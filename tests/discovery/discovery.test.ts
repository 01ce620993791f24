/** Links that their merchant lists for agents: what the listing shows, and that it shows nothing else. Read with the reference's own client. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { HTTPFacilitatorClient } from "@x402/core/server";
import type { PaymentRequirements } from "@x402/core/types";
import {
  type DiscoveryExtension,
  extractDiscoveryInfoV1,
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
  withBazaar,
} from "@x402/extensions/bazaar";
import { isPaymentIdentifierExtension } from "@x402/extensions/payment-identifier";
import { PaymentRequirementsSchema } from "x402/types";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

const LINKS = "/v1/payment-links";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld({ env: { FACILITATOR: "1" } });
  merchant = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const stranger = () => openClient(world.baseUrl);
const bazaar = () =>
  withBazaar(new HTTPFacilitatorClient({ url: `${world.baseUrl}/facilitator` })).extensions.bazaar;

async function make(fields: Record<string, unknown> = {}): Promise<string> {
  const body = { amount: 2, description: "Weather report", discoverable: true, ...fields };
  const answer = await merchant.client.post(LINKS, body);
  expect({ status: answer.status, body: answer.body }).toMatchObject({ status: 201 });
  return answer.body.id;
}

const aiUrl = (id: string) => `${world.baseUrl}/v1/x402/${id}`;
const listed = async () =>
  (await bazaar().listResources({ limit: 100 })).items.map(({ resource }) => resource);
const isListed = async (id: string) => (await listed()).includes(aiUrl(id));
const manifestOf = async (query = "") => (await stranger().get(`/.well-known/x402${query}`)).body;

async function askTerms(id: string, query = "") {
  const answer = await stranger().get(`/v1/x402/${id}${query}`);
  const header = JSON.parse(Buffer.from(answer.headers.get("payment-required") ?? "", "base64").toString());
  return { body: answer.body, header };
}

describe("which links are listed", () => {
  test("a link is listed only if its merchant opts in, until the merchant opts out", async () => {
    const id = await make({ discoverable: undefined });
    expect((await merchant.client.get(`${LINKS}/${id}`)).body.discoverable).toBe(false);
    expect(await isListed(id)).toBe(false);
    const shown = await merchant.client.patch(`${LINKS}/${id}`, { discoverable: true });
    expect(shown).toMatchObject({ status: 200, body: { id, discoverable: true } });
    expect(await isListed(id)).toBe(true);
    await merchant.client.patch(`${LINKS}/${id}`, { discoverable: false });
    expect(await isListed(id)).toBe(false);
  });

  test("another merchant's link cannot be listed, nor a link by other fields", async () => {
    const id = await make({ discoverable: false });
    const other = await signUp(world.baseUrl);
    expect((await other.client.patch(`${LINKS}/${id}`, { discoverable: true })).status).toBe(404);
    expect((await merchant.client.patch(`${LINKS}/${id}`, { description: "x" })).status).toBe(400);
    expect((await merchant.client.patch(`${LINKS}/${id}`, {})).status).toBe(400);
    expect(await isListed(id)).toBe(false);
  });

  test("a payment of a reusable link is not listed in addition to it, and its merchant cannot list it", async () => {
    const id = await make({ maxPayments: null });
    const use = await stranger().post(`/api/v1/public/payment-links/${id}/uses`, {});
    const refused = await merchant.client.patch(`${LINKS}/${use.body.linkId}`, { discoverable: true });
    expect(refused).toMatchObject({ status: 409, body: { error: { details: { issue: "is_use" } } } });
    expect([await isListed(id), await isListed(use.body.linkId)]).toEqual([true, false]);
  });

  test("a link that cannot be paid now is not listed: cancelled, expired, held, used up, too small", async () => {
    const cancelled = await make();
    await merchant.client.post(`${LINKS}/${cancelled}/cancel`);
    const expired = await make();
    await world.sql`update payment_links set expires_at = now() where id = ${expired}`;
    const held = await make();
    await world.sql`update payment_links set status = 'PENDING' where id = ${held}`;
    const usedUp = await make({ maxPayments: 2 });
    const tooSmall = await make({ amount: 0.000999 });
    const tooLow = await make({ amount: null, minAmount: 0.0001, maxAmount: 0.0009 });
    const all = [cancelled, expired, held, usedUp, tooSmall, tooLow];
    const open = () => stranger().post(`/api/v1/public/payment-links/${usedUp}/uses`, {});
    await open();
    expect(await isListed(usedUp)).toBe(true);
    await open();
    // as if from another address each
    await world.sql`update payment_links set place_rank = 1 where parent_id = ${usedUp}`;
    const now = await listed();
    expect(all.filter((id) => now.includes(aiUrl(id)))).toEqual([]);
    const leastRelayed = await make({ amount: 0.001 });
    expect(await isListed(leastRelayed)).toBe(true);
  });
});

describe("an entry", () => {
  test("has the terms of the 402, and nothing about the order or the merchant's account", async () => {
    await merchant.client.patch("/v1/auth/me", { displayName: "Zoe's Forecasts" });
    const order = {
      reference: "order-secret-1",
      metadata: { note: "secret-2" },
      customerEmail: "secret3@example.test",
    };
    const id = await make({ amount: 0.25, ...order });
    const { items } = await bazaar().listResources({ limit: 1 });
    const { header } = await askTerms(id);
    expect(items[0]).toMatchObject({
      ...{ resource: aiUrl(id), type: "http", x402Version: 2, description: "Weather report" },
      ...{ mimeType: "application/json", serviceName: "Zoe's Forecasts" },
      extensions: { bazaar: header.extensions.bazaar },
    });
    const withoutTime = ({ maxTimeoutSeconds: _, ...terms }: PaymentRequirements) => terms;
    expect(items[0]?.accepts.map(withoutTime)).toEqual(header.accepts.map(withoutTime));
    expect(header.accepts[0].amount).toBe("250000");
    const texts = [JSON.stringify(items), JSON.stringify(await manifestOf("?limit=1"))];
    for (const text of texts) {
      expect(text).toContain(id);
      expect(text).not.toMatch(/secret|user_|@example/);
      expect(text).not.toContain(merchant.email);
    }
  });

  test("a name that was derived from an e-mail address, or does not fit the field, is left out", async () => {
    const unnamed = await signUp(world.baseUrl);
    await unnamed.client.post(LINKS, { amount: 1, description: "No name", discoverable: true });
    expect((await bazaar().listResources({ limit: 1 })).items[0]?.serviceName).toBeUndefined();
    await unnamed.client.patch("/v1/auth/me", { displayName: "Z".repeat(32) });
    expect((await bazaar().listResources({ limit: 1 })).items[0]?.serviceName).toBe("Z".repeat(32));
    for (const displayName of ["Z".repeat(33), "Müller"]) {
      await unnamed.client.patch("/v1/auth/me", { displayName });
      expect((await bazaar().listResources({ limit: 1 })).items[0]?.serviceName).toBeUndefined();
    }
  });

  test("the manifest of the origin has the fields of both drafts, at both paths", async () => {
    const id = await make();
    const manifest = await manifestOf("?limit=1");
    expect(manifest).toMatchObject({
      ...{ version: 1, x402Version: 2, resources: [aiUrl(id)] },
      items: [{ resource: { url: aiUrl(id) }, type: "http", input: { method: "GET" } }],
      pagination: { limit: 1, offset: 0 },
    });
    expect((await stranger().get("/.well-known/x402.json?limit=1")).body).toEqual(manifest);
    const headers = (await stranger().get("/.well-known/x402")).headers;
    expect(headers.get("access-control-allow-origin")).toBe("*");
  });
});

describe("the 402", () => {
  test("of a listed link carries a bazaar extension that the reference accepts, in both versions", async () => {
    const id = await make();
    const { header, body } = await askTerms(id);
    const extension = header.extensions.bazaar as DiscoveryExtension;
    expect(validateDiscoveryExtension(extension)).toEqual({ valid: true });
    expect(validateDiscoveryExtensionSpec(extension as never)).toEqual({ valid: true });
    const [item] = body.accepts;
    expect(PaymentRequirementsSchema.safeParse(item).success).toBe(true);
    expect(extractDiscoveryInfoV1(item)).toMatchObject({ input: { type: "http", method: "GET" } });
  });

  test("of any other link does not, and both offer a payment-identifier that the reference accepts", async () => {
    const { header, body } = await askTerms(await make({ discoverable: false }));
    expect(Object.keys(header.extensions)).not.toContain("bazaar");
    expect(body.accepts[0].outputSchema).toBeUndefined();
    expect(isPaymentIdentifierExtension(header.extensions["payment-identifier"])).toBe(true);
  });

  test("of a link whose payer chooses the amount says how to name it", async () => {
    const id = await make({ amount: null, minAmount: 0.5, maxAmount: 3, maxPayments: null });
    const { header } = await askTerms(id);
    expect(header).toMatchObject({ error: "AMOUNT_REQUIRED", accepts: [] });
    const extension = header.extensions.bazaar as DiscoveryExtension;
    expect(validateDiscoveryExtension(extension)).toEqual({ valid: true });
    const { amount } = header.extensions.bazaar.info.input.queryParams;
    expect(amount).toBe("0.500000");
    const chosen = await askTerms(id, `?amount=${amount}`);
    expect(chosen.header.accepts).toMatchObject([{ amount: "500000" }]);
    const { items } = await bazaar().listResources({ limit: 1 });
    expect(items[0]).toMatchObject({ resource: aiUrl(id), accepts: [{ amount: "500000" }] });
  });
});

describe("pages and filters", () => {
  test("pages are newest first and do not overlap; the total counts all", async () => {
    const newest = [await make(), await make(), await make()].reverse().map(aiUrl);
    const first = await bazaar().listResources({ limit: 2 });
    const second = await bazaar().listResources({ limit: 2, offset: 2 });
    expect(first.items.map(({ resource }) => resource)).toEqual(newest.slice(0, 2));
    expect(second.items[0]?.resource).toBe(newest[2] ?? "");
    const all = await bazaar().listResources({ limit: 100 });
    expect(first.pagination).toEqual({ limit: 2, offset: 0, total: all.items.length });
    expect((await bazaar().listResources({ offset: all.items.length })).items).toEqual([]);
  });

  test.each([
    ["limit=100", "limit=101"],
    ["limit=1", "limit=0"],
    ["offset=10000", "offset=10001"],
    ["offset=0", "offset=-1"],
  ])("%s is accepted and %s refused with 400, on both listings", async (inside, outside) => {
    for (const path of ["/.well-known/x402", "/facilitator/discovery/resources"]) {
      expect((await stranger().get(`${path}?${inside}`)).status).toBe(200);
      expect((await stranger().get(`${path}?${outside}`)).status).toBe(400);
    }
  });

  test("filters keep only what they name", async () => {
    const id = await make();
    const { header } = await askTerms(id);
    const [{ payTo }] = header.accepts;
    const count = async (filter: object) => (await bazaar().listResources(filter)).pagination.total;
    const other = await signUp(world.baseUrl);
    await other.client.post(LINKS, { amount: 1, description: "Another's", discoverable: true });
    const all = await count({});
    const mine = await count({ payTo });
    expect(mine).toBeGreaterThan(0);
    expect(mine).toBeLessThan(all);
    expect(await count({ payTo: payTo.toUpperCase().replace("0X", "0x") })).toBe(mine);
    for (const filter of [
      ...[{ type: "http" }, { scheme: "exact" }, { network: "eip155:84532" }, { network: "base-sepolia" }],
      { extensions: "bazaar" },
    ])
      expect({ filter, count: await count(filter) }).toEqual({ filter, count: all });
    for (const filter of [
      ...[{ type: "mcp" }, { scheme: "upto" }, { network: "eip155:8453" }, { network: "solana" }],
      ...[{ extensions: "other" }, { payTo: "0x\u0000" }, { payTo: `0x${"1".repeat(40)}` }],
    ])
      expect({ filter, count: await count(filter) }).toEqual({ filter, count: 0 });
  });
});
