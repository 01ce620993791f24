/** The SDK against the running service: real links, payments on the chain, refusals, lost answers and webhooks. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { createClient } from "../../sdk/client.ts";
import { ApiError, ConnectionError, PaymentError, WebhookError } from "../../sdk/errors.ts";
import { payLink, sendPayment, signPayment, UnknownOutcomeError } from "../../sdk/pay-link.ts";
import { verifyWebhook } from "../../sdk/verify-webhook.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startReceiver } from "../webhooks/receiver.ts";
import { renderSdkTypes, SDK_TYPES } from "./wire-types.ts";

const SIZE_MAX = 10_240;
let world: MerchantWorld;
let ann: Merchant;
let apiKey: string;
const client = (given: { fetch?: typeof fetch; apiKey?: string } = {}) =>
  createClient({ baseUrl: world.baseUrl, apiKey, ...given });

beforeAll(async () => {
  world = await startMerchantWorld({
    // a block is due after the answer: payments are sent, and settled later
    blockTimeS: 1,
    env: { WEBHOOK_PRIVATE_TARGETS: "1", PAY_WAIT_MS: "300" },
  });
  ann = await signUp(world.baseUrl);
  const scopes = ["links:read", "links:write", "transactions:read", "exports", "webhooks", "refunds:request"];
  const { body } = await ann.client.post("/v1/api-keys", { name: "Shop", scopes });
  apiKey = body.data.key;
}, 120_000);
afterAll(() => world?.stop());

async function newAccount(units: bigint) {
  const account = privateKeyToAccount(generatePrivateKey());
  await fundUsdc(world.chain.rpcUrl, account.address, units);
  return account;
}

/** A network that fails as `when` says: after the service has answered, so the request was carried out. */
function losingAnswers(when: (request: { method: string; attempt: number }) => boolean) {
  const sent: { method: string; url: string; headers: Headers }[] = [];
  const lossy = async (url: string | URL | Request, init?: RequestInit) => {
    const request = { method: init?.method ?? "GET", url: String(url), headers: new Headers(init?.headers) };
    sent.push(request);
    const answer = await fetch(url, init);
    const attempt = sent.filter((one) => one.method === request.method && one.url === request.url).length;
    if (when({ method: request.method, attempt })) throw new TypeError("the answer was lost");
    return answer;
  };
  return { fetch: lossy as typeof fetch, sent };
}

test("the types are those of the OpenAPI document", async () => {
  expect(readFileSync(join(import.meta.dir, "../..", SDK_TYPES), "utf8")).toBe(await renderSdkTypes());
});

test("the whole client is at most 10 kB for a browser", async () => {
  const folder = mkdtempSync(join(tmpdir(), "test-sdk-"));
  try {
    const entry = join(folder, "all.ts");
    const files = ["client", "errors", "pay-link", "verify-webhook"];
    const sdk = join(import.meta.dir, "../../sdk");
    await Bun.write(entry, files.map((file) => `export * from "${sdk}/${file}.ts";`).join("\n"));
    const { outputs } = await Bun.build({ entrypoints: [entry], target: "browser", minify: true });
    expect(outputs[0]?.size).toBeGreaterThan(1_000);
    expect(outputs[0]?.size).toBeLessThanOrEqual(SIZE_MAX);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

describe("links", () => {
  test("are created, read, listed page by page and cancelled", async () => {
    const { links } = client();
    const made: string[] = [];
    for (const table of ["1", "2", "3"])
      made.push(
        (await links.create({ amount: 1, description: "Coffee", reference: "T", metadata: { table } })).id,
      );
    const listed: string[] = [];
    for await (const link of links.list({ reference: "T", limit: 2 })) listed.push(link.id);
    expect(listed).toEqual(made.toReversed());
    const [first = ""] = made;
    expect((await links.cancel(first)).status).toBe("CANCELLED");
    expect(await links.get(first)).toMatchObject({ status: "CANCELLED", metadata: { table: "1" } });
  });

  test("a link whose response was lost is created once: the retry carries the same key", async () => {
    const { fetch: lossy, sent } = losingAnswers(({ attempt }) => attempt === 1);
    const { id } = await client({ fetch: lossy }).links.create({
      amount: 1,
      description: "Once",
      reference: "L",
    });
    expect(sent.length).toBe(2);
    expect(new Set(sent.map(({ headers }) => headers.get("idempotency-key"))).size).toBe(1);
    const listed: string[] = [];
    for await (const link of client().links.list({ reference: "L" })) listed.push(link.id);
    expect(listed).toEqual([id]);
  });

  test("a request that is not safe to repeat is sent once, and its unknown outcome is a ConnectionError", async () => {
    const { id } = await client().links.create({ amount: 1, description: "Cancelled" });
    const { fetch: lossy, sent } = losingAnswers(() => true);
    await expect(client({ fetch: lossy }).links.cancel(id)).rejects.toBeInstanceOf(ConnectionError);
    expect(sent.length).toBe(1);
    expect((await client().links.get(id)).status).toBe("CANCELLED");
  });

  test("error: a refusal has the service's code, field and request id, and is not retried", async () => {
    const { fetch: counted, sent } = losingAnswers(() => false);
    const failure = await client({ fetch: counted })
      .links.create({ amount: 0, description: "d" })
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ApiError);
    expect(failure).toMatchObject({ status: 400, code: "VALIDATION_ERROR", details: { field: "amount" } });
    expect((failure as ApiError).requestId).toBeString();
    expect(sent.length).toBe(1);
    await expect(client({ apiKey: "sk_wrong" }).links.get("x")).rejects.toMatchObject({
      code: "UNAUTHORIZED",
    });
  });
});

describe("payLink", () => {
  test("pays a link; the merchant sees it PAID, in the transactions, in an export and in the events", async () => {
    const { links, transactions, events } = client();
    const { id, aiUrl } = await links.create({ amount: 1.25, description: "Paid by the SDK" });
    const payment = await payLink(aiUrl, await newAccount(2_000_000n), { maxAmount: 1.25 });
    expect(payment.amountUnits).toBe(1_250_000n);
    expect(payment.txHash).toMatch(/^0x[0-9a-f]{64}$/);
    expect(await links.waitForEnd(id, { timeoutMs: 90_000 })).toMatchObject({ status: "PAID", amount: 1.25 });
    const rows = [];
    for await (const row of transactions.list({ search: payment.txHash })) rows.push(row);
    expect(rows).toMatchObject([{ amount: "1.250000", metadata: { linkId: id } }]);
    const { summary } = await transactions.summary({ search: payment.txHash });
    expect(summary).toMatchObject([{ type: "PAYMENT_LINK", count: 1, amount: "1.250000" }]);
    expect(await (await transactions.export({ format: "csv" })).text()).toContain(payment.txHash);
    const found = await waitFor("the event", async () => {
      const { data } = await events.page({ limit: 100 });
      return data.find((event) => event.type === "payment_link.paid" && event.subjectId === id);
    });
    expect(found.data.link).toMatchObject({ id, status: "PAID" });
  });

  test("resolves once a block has the payment, not when it was sent", async () => {
    const { id, aiUrl } = await client().links.create({ amount: 0.25, description: "Settled" });
    const answers: { success?: boolean; settled?: boolean }[] = [];
    const watching = async (url: string | URL | Request, init?: RequestInit) => {
      const answer = await fetch(url, init);
      if (init?.method === "POST") answers.push((await answer.clone().json()) as { settled?: boolean });
      return answer;
    };
    const { txHash } = await payLink(aiUrl, await newAccount(1_000_000n), {
      ...{ maxAmount: 1, fetch: watching as typeof fetch },
    });
    expect(answers.at(-1)).toMatchObject({ success: true, settled: true, txHash });
    const [row] = await world.sql<{ state: string }[]>`select state from payments where link_id = ${id}`;
    expect(["MINED", "CONFIRMED"]).toContain(row?.state ?? "");
  });

  test("error: an attempt that could not be settled in time is kept, and pays once when sent again", async () => {
    const { id, aiUrl } = await client().links.create({ amount: 0.3, description: "Attempt" });
    const account = await newAccount(1_000_000n);
    const { fetch: deaf } = losingAnswers(({ method }) => method === "POST");
    const failure = await payLink(aiUrl, account, { maxAmount: 1, fetch: deaf, waitMs: 0 }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(UnknownOutcomeError);
    const { attempt } = failure as UnknownOutcomeError;
    const kept = JSON.parse(JSON.stringify(attempt));
    expect((await sendPayment(kept)).amountUnits).toBe(300_000n);
    const [row] = await world.sql<{ count: number }[]>`
      select count(*)::int as count from payments where link_id = ${id}`;
    expect(row?.count).toBe(1);
  });

  test("error: nothing is signed for a network that is not allowed", async () => {
    const { aiUrl } = await client().links.create({ amount: 0.1, description: "Network" });
    const account = await newAccount(1_000_000n);
    await expect(payLink(aiUrl, account, { maxAmount: 1, chainIds: [8453] })).rejects.toMatchObject({
      code: "NETWORK_NOT_ALLOWED",
    });
    await payLink(aiUrl, account, { maxAmount: 1, chainIds: [8453, 84532] });
  });

  test("a link whose payer chooses the amount is paid with that amount", async () => {
    const { body } = await ann.client.post("/v1/payment-links", {
      ...{ amount: null, minAmount: 0.1, maxAmount: 1, description: "Tip", maxPayments: null },
    });
    const account = await newAccount(1_000_000n);
    await expect(payLink(body.aiUrl, account, { maxAmount: 1 })).rejects.toMatchObject({
      code: "AMOUNT_REQUIRED",
    });
    const paid = await payLink(body.aiUrl, account, { maxAmount: 1, amount: 0.35 });
    expect(paid.amountUnits).toBe(350_000n);
  });

  test("a payment whose responses were lost moves the money once", async () => {
    const { links } = client();
    const { id, aiUrl } = await links.create({ amount: 0.5, description: "Lost answers" });
    const { fetch: lossy, sent } = losingAnswers(({ method, attempt }) => method === "POST" && attempt < 3);
    await payLink(aiUrl, await newAccount(5_000_000n), { maxAmount: 1, fetch: lossy });
    expect(sent.filter(({ method }) => method === "POST").length).toBeGreaterThanOrEqual(3);
    const [row] = await world.sql<{ count: number }[]>`
      select count(*)::int as count from payments where link_id = ${id}`;
    expect(row?.count).toBe(1);
    expect(await links.waitForEnd(id, { timeoutMs: 90_000 })).toMatchObject({
      status: "PAID",
      exception: "NONE",
    });
  });

  test("behavior: nothing is signed above maxAmount; the exact amount is paid", async () => {
    const { aiUrl } = await client().links.create({ amount: 1.000001, description: "Limit" });
    const account = await newAccount(5_000_000n);
    let signed = 0;
    const counting = {
      address: account.address,
      signTypedData: (typedData: Parameters<typeof account.signTypedData>[0]) => {
        signed += 1;
        return account.signTypedData(typedData);
      },
    };
    await expect(payLink(aiUrl, counting, { maxAmount: 1 })).rejects.toMatchObject({ code: "OVER_LIMIT" });
    expect(signed).toBe(0);
    await payLink(aiUrl, counting, { maxAmount: 1.000001 });
    expect(signed).toBe(1);
  });

  test("error: a refusal by a proxy is not an outcome: the payment behind it is found, and paid once", async () => {
    const { id, aiUrl } = await client().links.create({ amount: 0.2, description: "Proxy" });
    let posts = 0;
    const proxied = (async (url: string | URL, init?: RequestInit) => {
      const answer = await fetch(url, init);
      if (init?.method !== "POST") return answer;
      posts += 1;
      return posts === 1 ? Response.json({ error: "Forbidden" }, { status: 403 }) : answer;
    }) as typeof fetch;
    const paid = await payLink(aiUrl, await newAccount(1_000_000n), { maxAmount: 1, fetch: proxied });
    expect(paid.amountUnits).toBe(200_000n);
    const [row] = await world.sql<{ count: number }[]>`
      select count(*)::int as count from payments where link_id = ${id}`;
    expect(row?.count).toBe(1);
  });

  test("a link whose address redirects is paid where it redirects to", async () => {
    const { id } = await client().links.create({ amount: 0.2, description: "Redirected" });
    const server = Bun.serve({
      ...{ port: 0, hostname: "127.0.0.1" },
      // fetch follows a 301 of a POST with a GET
      fetch: ({ url }) => Response.redirect(url.replace(new URL(url).origin, world.baseUrl), 301),
    });
    try {
      const aiUrl = `http://127.0.0.1:${server.port}/v1/x402/${id}`;
      const paid = await payLink(aiUrl, await newAccount(1_000_000n), { maxAmount: 1, waitMs: 20_000 });
      expect(paid.amountUnits).toBe(200_000n);
    } finally {
      await server.stop();
    }
  }, 60_000);

  test.each([
    [900, undefined],
    [901, "VALIDITY_NOT_ALLOWED"],
    ["300", "VALIDITY_NOT_ALLOWED"],
  ])("a link that asks for an authorization of %p seconds", async (maxTimeoutSeconds, code) => {
    const { aiUrl } = await client().links.create({ amount: 0.1, description: "Validity" });
    const greedy = (async (url: string | URL, init?: RequestInit) => {
      const body = (await (await fetch(url, init)).json()) as { accepts: object[] };
      return Response.json(
        { ...body, accepts: body.accepts.map((item) => ({ ...item, maxTimeoutSeconds })) },
        { status: 402 },
      );
    }) as typeof fetch;
    const account = await newAccount(1_000_000n);
    const outcome = await signPayment(aiUrl, account, { maxAmount: 1, fetch: greedy }).catch(
      (error: PaymentError) => error,
    );
    if (code === undefined) expect(outcome).toMatchObject({ amount: "100000" });
    else expect(outcome).toMatchObject({ code });
  });

  test("signs for the real USDC, even if the link gives the token another name", async () => {
    const { aiUrl } = await client().links.create({ amount: 0.1, description: "Renamed" });
    const renaming = (async (url: string | URL, init?: RequestInit) => {
      const answer = await fetch(url, init);
      if (init?.method === "POST") return answer;
      const { accepts } = (await answer.json()) as { accepts: object[] };
      const extra = { name: "Permit2", version: "9", salt: `0x${"1".repeat(64)}` };
      return Response.json({ accepts: accepts.map((item) => ({ ...item, extra })) }, { status: 402 });
    }) as typeof fetch;
    const paid = await payLink(aiUrl, await newAccount(1_000_000n), { maxAmount: 1, fetch: renaming });
    expect(paid.amountUnits).toBe(100_000n);
  });

  test("error: a cancelled link is refused before anything is signed", async () => {
    const { id, aiUrl } = await client().links.create({ amount: 1, description: "Gone" });
    await client().links.cancel(id);
    await expect(payLink(aiUrl, await newAccount(1n), { maxAmount: 1 })).rejects.toBeInstanceOf(PaymentError);
  });
});

describe("verifyWebhook", () => {
  test("accepts a message of the service, and refuses a changed, an old and a foreign one", async () => {
    const receiver = startReceiver();
    try {
      const given = { url: receiver.url, eventTypes: ["payment_link.created"] };
      const { secret } = (await ann.client.post("/v1/webhook-endpoints", given)).body.data;
      const { id } = await client().links.create({ amount: 3, description: "Hooked" });
      const { body, headers, id: messageId } = await waitFor("a message", async () => receiver.received[0]);
      const verified = await verifyWebhook(body, headers, { secret });
      expect(verified.id).toBe(messageId);
      expect(verified.message.data.link).toMatchObject({ id, amount: 3 });
      const ofNode: IncomingHttpHeaders = Object.fromEntries(headers);
      expect((await verifyWebhook(body, ofNode, { secret })).id).toBe(verified.id);
      const refused = (...args: Parameters<typeof verifyWebhook>) =>
        expect(verifyWebhook(...args)).rejects.toBeInstanceOf(WebhookError);
      await refused(body.replace("Hooked", "Cooked"), headers, { secret });
      await refused(body, headers, { secret: `whsec_${btoa("x".repeat(32))}` });
      const sentAt = Number(headers.get("webhook-timestamp")) * 1_000;
      await verifyWebhook(body, headers, { secret, now: new Date(sentAt + 300_000) });
      await refused(body, headers, { secret, now: new Date(sentAt + 300_001) });
      await refused(body, {}, { secret });
    } finally {
      await receiver.stop();
    }
  });
});
