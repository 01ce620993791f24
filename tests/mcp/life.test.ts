/** An agent's whole life over both transports: it creates a link, a stock x402 client pays it, the agent sees it paid and exports it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { createSigner, wrapFetchWithPayment } from "x402-fetch";
import { newTransactionId } from "../../core/domain/ids.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { PATIENT_ENV } from "../support/world.ts";
import { connectHttp, connectStdio, type McpClient, type ToolAnswer } from "./mcp-client.ts";
import { testPayLink } from "./pay-link.ts";
import { TRANSCRIPTS } from "./transcripts.ts";

const SCOPES = ["links:read", "links:write", "transactions:read", "exports", "refunds:request", "webhooks"];
/** Below the cap of the stock client (0.10 USDC). */
const AMOUNT = 0.09;
/** Until a wait that begins late has seen one. */
const PAYMENTS_MAX = 10;

let world: MerchantWorld;
let ann: Merchant;
let apiKey: string;
const clients: McpClient[] = [];

beforeAll(async () => {
  world = await startMerchantWorld({ env: PATIENT_ENV });
  ann = await signUp(world.baseUrl);
  apiKey = await newKey(SCOPES);
}, 120_000);
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await world?.stop();
});

async function newKey(scopes: readonly string[]): Promise<string> {
  return (await ann.client.post("/v1/api-keys", { name: "agent", scopes })).body.data.key;
}

async function open(transport: "http" | "stdio", key: string | undefined = apiKey): Promise<McpClient> {
  const client =
    transport === "http"
      ? await connectHttp(world.baseUrl, key)
      : await connectStdio({ SERVICE_URL: world.baseUrl, API_KEY: key });
  clients.push(client);
  return client;
}

async function newPayer(units: bigint) {
  const privateKey = generatePrivateKey();
  const account = privateKeyToAccount(privateKey);
  await fundUsdc(world.chain.rpcUrl, account.address, units);
  return { privateKey, account };
}

async function payWithStockClient(aiUrl: string): Promise<void> {
  const { privateKey } = await newPayer(100_000n);
  const pay = wrapFetchWithPayment(fetch, await createSigner("base-sepolia", privateKey));
  expect((await pay(aiUrl, { method: "GET" })).status).toBe(200);
}

describe.each(["http", "stdio"] as const)("over %s", (transport) => {
  test("an agent creates a link, waits until a stock x402 client pays it, sums it up, exports it and requests a refund", async () => {
    const agent = await open(transport);
    const reference = `order-${transport}`;
    const created = await agent.call("create_link", { amount: AMOUNT, description: "Report", reference });
    expect(created.value).toMatchObject({ status: "ACTIVE", isPaid: false, amount: AMOUNT, reference });
    const { id, aiUrl } = created.value;

    const progress: (string | undefined)[] = [];
    const waiting = agent.call(
      "wait_for_payment",
      { id, timeoutSeconds: 90 },
      { onProgress: (message) => progress.push(message) },
    );
    expect(await waitFor("the first progress", async () => progress[0])).toBe("ACTIVE");
    await payWithStockClient(aiUrl);
    expect((await waiting).value).toMatchObject({ outcome: "PAID", id, isPaid: true, exception: "NONE" });

    expect((await agent.call("get_link", { id })).value).toMatchObject({ status: "PAID", isPaid: true });
    const byReference = await agent.call("get_link", { reference });
    expect(byReference.value.links.map((link: { id: string }) => link.id)).toEqual([id]);

    const listed = await agent.call("list_transactions", { search: reference });
    expect(listed.value.transactions).toMatchObject([
      { amount: "0.090000", status: "CONFIRMED", linkId: id },
    ]);
    const [{ transactionHash }] = listed.value.transactions;
    const summed = await agent.call("summarize", { search: transactionHash });
    expect(summed.value.confirmed).toMatchObject([{ type: "PAYMENT_LINK", count: 1, amount: "0.090000" }]);

    const exported = await agent.call("export", { format: "csv", search: transactionHash });
    expect(exported.value).toMatchObject({ status: "READY", rows: 1, format: "csv" });
    expect(exported.value.text).toContain(transactionHash);

    const refund = await agent.call("request_refund", { linkId: id, reason: "Wrong report" });
    expect(refund.value).toMatchObject({ status: "REQUESTED", amount: "0.090000" });
    const [moved] = await world.sql<
      { count: number }[]
    >`select count(*)::int as count from wallet_operations`;
    expect(moved?.count).toBe(0);
  });
});

describe("a model is guided by what it reads", () => {
  test.each(TRANSCRIPTS.map((one) => [one.user, one] as const))("%s", async (_, { scopes, steps }) => {
    const agent = await open("http", scopes ? await newKey(scopes) : apiKey);
    const { tools } = await agent.client.listTools();
    const descriptions = tools.map(({ description = "" }) => description);
    const known = [agent.client.getInstructions() ?? "", ...descriptions].join("\n");
    let last: ToolAnswer = { isError: false, text: "", value: {} };
    for (const step of steps) {
      expect(`${known}\n${last.text}`).toMatch(step.because);
      if (step.tool === undefined) continue;
      const args = step.args?.(last.value) ?? {};
      const calling = agent.call(step.tool, args);
      if (step.meanwhile === "the link is paid") await payWithStockClient(last.value.aiUrl);
      if (step.meanwhile === "the link is cancelled")
        await ann.client.post(`/v1/payment-links/${last.value.id}/cancel`);
      last = await calling;
      expect(last.isError ? last.text : "").toMatch(step.refusal ?? /^$/);
      if (step.answer) expect(last.value).toMatchObject(step.answer);
    }
  });

  test("a link that was created without a network says that it is paid with test money", async () => {
    const agent = await open("http");
    const { tools } = await agent.client.listTools();
    const tool = tools.find(({ name }) => name === "create_link");
    expect(tool?.inputSchema.properties?.network).toMatchObject({
      description: expect.stringContaining("the default, base-sepolia"),
    });
    expect(agent.client.getInstructions()).toContain("isTestMoney");
    const { value } = await agent.call("create_link", { amount: AMOUNT, description: "No network" });
    expect(value).toMatchObject({ network: "base-sepolia", isTestMoney: true });
    expect((await agent.call("get_link", { id: value.id })).value.isTestMoney).toBe(true);
  });

  test("every tool and every argument is described, in at most 700 characters", async () => {
    const { tools } = await (await open("http")).client.listTools();
    for (const { name, description = "", inputSchema } of tools) {
      expect([name, description.length > 60 && description.length <= 700]).toEqual([name, true]);
      for (const [argument, schema] of Object.entries(inputSchema.properties ?? {}))
        expect([name, argument, JSON.stringify(schema).length > 2]).toEqual([name, argument, true]);
    }
  });
});

describe("wait_for_payment", () => {
  test("answers STILL_WAITING within its timeout, and reports progress", async () => {
    const agent = await open("http");
    const { id } = (await agent.call("create_link", { amount: 1, description: "Unpaid" })).value;
    const progress: (string | undefined)[] = [];
    const onProgress = (message: string | undefined) => void progress.push(message);
    const { value } = await agent.call("wait_for_payment", { id, timeoutSeconds: 5 }, { onProgress });
    expect(value).toMatchObject({ outcome: "STILL_WAITING", id, isPaid: false });
    expect(progress).toContain("ACTIVE");
  });

  test("answers CANCELLED when the merchant cancels the link meanwhile", async () => {
    const agent = await open("http");
    const { id } = (await agent.call("create_link", { amount: 1, description: "Cancelled" })).value;
    let started: () => void = () => undefined;
    const isWaiting = new Promise<void>((resolve) => {
      started = resolve;
    });
    const waiting = agent.call(
      "wait_for_payment",
      { id, timeoutSeconds: 90 },
      { onProgress: () => started() },
    );
    await isWaiting;
    await ann.client.post(`/v1/payment-links/${id}/cancel`);
    expect((await waiting).value).toMatchObject({ outcome: "CANCELLED", isPaid: false });
  });

  test("of a reusable link answers with the next payment", async () => {
    const agent = await open("http");
    const { body } = await ann.client.post("/v1/payment-links", {
      ...{ amount: AMOUNT, description: "Per call", maxPayments: null },
    });
    const { privateKey } = await newPayer(BigInt(PAYMENTS_MAX) * 100_000n);
    const pay = wrapFetchWithPayment(fetch, await createSigner("base-sepolia", privateKey));
    const waiting = agent.call("wait_for_payment", { id: body.id, timeoutSeconds: 90 });
    const isOver = waiting.then(() => true);
    // the wait begins at some time after the call, so payments follow until it has seen one
    for (let payments = 0; payments < PAYMENTS_MAX; payments += 1) {
      expect((await pay(body.aiUrl, { method: "GET" })).status).toBe(200);
      if (await Promise.race([isOver, Bun.sleep(5_000)])) break;
    }
    expect((await waiting).value).toMatchObject({ outcome: "PAID", isPaid: true, parentId: body.id });
    const read = await agent.call("get_link", { id: body.id });
    expect(read.value).toMatchObject({ status: "ACTIVE", isPaid: false, maxPayments: "unlimited" });
    expect(read.value.payments[0]).toMatchObject({ status: "PAID", amount: AMOUNT });
  });

  test("of a reusable link that has ended answers immediately", async () => {
    const agent = await open("http");
    const { body } = await ann.client.post("/v1/payment-links", {
      ...{ amount: AMOUNT, description: "Withdrawn", maxPayments: null },
    });
    await ann.client.post(`/v1/payment-links/${body.id}/cancel`);
    const startedMs = performance.now();
    const { value } = await agent.call("wait_for_payment", { id: body.id, timeoutSeconds: 30 });
    expect(value).toMatchObject({ outcome: "CANCELLED", id: body.id, isPaid: false });
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  });
});

test("sums keep networks separate, so that test USDC is not added to real USDC", async () => {
  const search = "Sums of two networks";
  for (const [network, units] of [
    ["base", 1_500_000],
    ["base-sepolia", 70_000_000],
  ] as const)
    await world.sql`
      insert into transactions (id, owner, network, type, status, amount_units, counterparty, description, detected_at)
      values (
        ${newTransactionId()}, owner_key(${ann.userId}), ${network}, 'RECEIVE', 'CONFIRMED', ${units}, ${`0x${"1".repeat(40)}`},
        ${search}, now()
      )`;
  const agent = await open("http");
  const sum = { type: "RECEIVE", status: "CONFIRMED", count: 1 };
  const real = { network: "base", ...sum, amount: "1.500000" };
  const both = await agent.call("summarize", { search });
  expect(both.value.confirmed).toEqual([real, { network: "base-sepolia", ...sum, amount: "70.000000" }]);
  const one = await agent.call("summarize", { search, networks: ["base"] });
  expect(one.value.confirmed).toEqual([real]);
});

describe("refusals name their code and what to do", () => {
  test.each([
    ["create_link", { amount: 1, description: "d" }, "links:write"],
    ["summarize", {}, "transactions:read"],
    ["export", {}, "exports"],
  ])("error: %s with a key that lacks the scope", async (name, args, scope) => {
    const agent = await open("http", await newKey(["links:read"]));
    const { isError, text } = await agent.call(name, args);
    expect(isError).toBe(true);
    expect(text).toStartWith("FORBIDDEN: ");
    expect(text).toContain(scope);
    expect(text).toContain("What to do: Ask the user for an API key");
  });

  test("error: a link of another account is not found, and a path is not an id", async () => {
    const other = await signUp(world.baseUrl);
    const { body } = await other.client.post("/v1/payment-links", { amount: 1, description: "Other" });
    const agent = await open("http");
    expect((await agent.call("get_link", { id: body.id })).text).toStartWith("NOT_FOUND: ");
    const odd = await agent.call("get_link", { id: "../transactions" });
    expect(odd).toMatchObject({ isError: true });
    expect(odd.text).toContain("must be a link's id");
  });

  test.each([
    ["summarize", { status: ["CONFIRMED"] }, "status"],
    ["list_transactions", { from: "2026-01-01" }, "from"],
    ["export", { amountMin: 5 }, "amountMin"],
    ["create_link", { amount: 1, description: "d", maxPayments: null }, "maxPayments"],
    ["get_link", { id: `link_${"A".repeat(22)}`, network: "base" }, "network"],
    ["wait_for_payment", { id: `link_${"A".repeat(22)}`, timeout: 5 }, "timeout"],
    ["request_refund", { linkId: `link_${"A".repeat(22)}`, to: "0x" }, "to"],
  ])("error: %s with an argument that it does not have", async (name, args, unknown) => {
    const { isError, text } = await (await open("http")).call(name, args);
    expect(isError).toBe(true);
    expect(text).toContain(`has unknown fields: ${unknown}`);
  });

  test("error: an idempotency key that no header can hold", async () => {
    const args = { amount: 1, description: "d", idempotencyKey: "order-\n-2001" };
    const { isError, text } = await (await open("http")).call("create_link", args);
    expect([isError, text.includes("printable ASCII")]).toEqual([true, true]);
  });

  test.each([
    ["summarize", { types: [] }, "must have at least 1 entry at types"],
    ["list_transactions", { statuses: [] }, "must have at least 1 entry at statuses"],
    ["export", { networks: [] }, "must have at least 1 entry at networks"],
    ["create_link", { amount: 0, description: "d" }, "must be more than 0 at amount"],
  ])("error: %s with %j", async (name, args, issue) => {
    const { isError, text } = await (await open("http")).call(name, args);
    expect([isError, text]).toEqual([true, expect.stringContaining(issue)]);
  });

  test("error: the metadata key that an object cannot have, and that would be dropped", async () => {
    const metadata = JSON.parse('{"order":"1","__proto__":"2"}');
    const given = { amount: 1, description: "d", metadata };
    const { isError, text } = await (await open("http")).call("create_link", given);
    expect([isError, text]).toEqual([true, expect.stringContaining("must not have the key __proto__")]);
    const kept = await (await open("http")).call("create_link", { ...given, metadata: { constructor: "2" } });
    const { body } = await ann.client.get(`/v1/payment-links/${kept.value.id}`);
    expect(body.metadata).toEqual({ constructor: "2" });
  });

  test("error: an amount with 7 decimals names the argument", async () => {
    const agent = await open("http");
    const { text } = await agent.call("create_link", { amount: 1.0000001, description: "d" });
    expect(text).toStartWith("VALIDATION_ERROR: ");
    expect(text).toContain("(argument amount)");
  });
});

describe("/mcp", () => {
  const post = (headers: Record<string, string>, body: unknown = { jsonrpc: "2.0", id: 1, method: "ping" }) =>
    fetch(`${world.baseUrl}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
      body: JSON.stringify(body),
    });
  const key = () => ({ authorization: `Bearer ${apiKey}` });

  test("declares no notifications of changed tools, which it never sends", async () => {
    const clientInfo = { name: "test", version: "1" };
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
    const answer = await post(key(), { jsonrpc: "2.0", id: 1, method: "initialize", params });
    expect(await answer.text()).toContain('"capabilities":{"tools":{"listChanged":false}}');
  });

  test("answers a ping without a session", async () => {
    const answer = await post(key());
    expect(answer.status).toBe(200);
    expect(answer.headers.get("mcp-session-id")).toBeNull();
    expect(await answer.text()).toContain('"result":{}');
  });

  test("error: 401 without a key, with a wrong one and with a session", async () => {
    expect((await post({})).status).toBe(401);
    expect((await post({ authorization: `Bearer sk_${"x".repeat(40)}` })).status).toBe(401);
    const cookie = [...ann.client.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    expect((await post({ cookie })).status).toBe(401);
  });

  test("error: 403 for a page of another origin, although its key is right; our own passes", async () => {
    expect((await post({ ...key(), origin: "https://evil.example" })).status).toBe(403);
    expect((await post({ ...key(), origin: world.baseUrl })).status).toBe(200);
  });

  test("error: 405 for GET, 400 for anything but JSON-RPC and for 21 messages at once, 406 without the stream", async () => {
    const read = await fetch(`${world.baseUrl}/mcp`, { headers: { ...key(), accept: "text/event-stream" } });
    expect([read.status, read.headers.get("allow")]).toEqual([405, "POST"]);
    expect((await post(key(), { hello: "world" })).status).toBe(400);
    const pings = (count: number) =>
      Array.from({ length: count }, (_, id) => ({ jsonrpc: "2.0", id, method: "ping" }));
    expect((await post(key(), pings(21))).status).toBe(400);
    expect((await post(key(), pings(20))).status).toBe(200);
    expect((await post({ ...key(), accept: "application/json" })).status).toBe(406);
  });

  test("a call whose caller has disconnected frees its slot: after 15 abandoned waits the next call is answered", async () => {
    const agent = await open("http");
    const { id } = (await agent.call("create_link", { amount: 1, description: "Abandoned" })).value;
    const wait = (callId: number) => ({
      ...{ jsonrpc: "2.0", id: callId, method: "tools/call" },
      params: { name: "wait_for_payment", arguments: { id, timeoutSeconds: 300 } },
    });
    for (let count = 0; count < 15; count += 1) {
      const gone = new AbortController();
      await waitFor("a place", async () => {
        const answer = await fetch(`${world.baseUrl}/mcp`, {
          method: "POST",
          headers: {
            ...key(),
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
          },
          body: JSON.stringify(wait(count)),
          signal: gone.signal,
        });
        return answer.status === 200 ? answer : undefined;
      });
      gone.abort();
    }
    await waitFor("an answer", async () => ((await post(key())).status === 200 ? true : undefined));
  });
});

test("over HTTP no tool pays, and no tool at all sends a merchant's money", async () => {
  const names = async (client: McpClient) =>
    (await client.client.listTools()).tools.map(({ name }) => name).toSorted();
  const common = ["create_link", "export", "get_link", "list_transactions", "request_refund", "summarize"];
  expect(await names(await open("http"))).toEqual([...common, "wait_for_payment"]);
  const { privateKey } = await newPayer(1n);
  const payer = await connectStdio({ SERVICE_URL: world.baseUrl, PAYER_PRIVATE_KEY: privateKey });
  clients.push(payer);
  expect(await names(payer)).toEqual([...common, "pay_link", "wait_for_payment"].toSorted());
});

testPayLink(() => ({ world, ann }));
