/** What every answer of the service has in common: envelope, headers, sizes, methods, paths. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let client: Client;

beforeAll(async () => {
  world = await startApiWorld();
  client = openClient(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const REGISTER = "/v1/identity/register";

/** Sends pieces of a body without end, until the server has answered. */
function sendRaw(path: string, header: string, piece: Buffer): Promise<{ head: string; body: string }> {
  const socket = connect(Number(new URL(world.baseUrl).port), "localhost");
  let received = "";
  const push = () => {
    while (socket.writable && socket.write(piece));
  };
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("drain", push);
    socket.on("data", (data) => {
      received += data.toString();
      const [head = "", body = ""] = received.split("\r\n\r\n");
      if (body.length < Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.POSITIVE_INFINITY)) return;
      socket.destroy();
      resolve({ head, body });
    });
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${header}\r\n\r\n`,
    );
    push();
  });
}

const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

describe("every answer", () => {
  test.each(["/v1/networks", "/health/live", "/nowhere", "/v1/auth/me", "/openapi.json"])(
    "%s states its version and request id, and forbids caching, framing and sniffing",
    async (path) => {
      const { headers } = await client.get(path);
      expect(headers.get("x-api-version")).toBe("v1");
      expect(headers.get("x-request-id")).toMatch(/^req_[\w-]{22}$/);
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(headers.get("strict-transport-security")).toBeNull();
      expect(headers.get("server")).toBeNull();
      expect(headers.get("x-powered-by")).toBeNull();
    },
  );

  test("keeps a valid request id of the caller and replaces any other", async () => {
    const given = async (id: string) =>
      (await client.get("/v1/networks", { "x-request-id": id })).headers.get("x-request-id");
    expect(await given("client-id.12345678")).toBe("client-id.12345678");
    for (const bad of ["short", "x".repeat(101), "has space here", "new\tline-12345", "<script>alert(1)"])
      expect(await given(bad)).toMatch(/^req_/);
  });

  test("is one log line with route, status and time, and nothing that was sent", async () => {
    const secret = "do-not-log-me-91";
    await client.post(
      `${REGISTER}?token=${secret}`,
      { email: `${secret}@example.com` },
      { cookie: `authToken=${secret}` },
    );
    await client.get(`/${secret}`);
    const requestId = "log-line-test-1";
    await client.get("/v1/networks", { "x-request-id": requestId });
    const deadline = Date.now() + 45_000;
    while (!world.log().includes(requestId) && Date.now() < deadline) await Bun.sleep(5);
    const lines = world
      .log()
      .split("\n")
      .filter((line) => line.includes(requestId));
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      level: "info",
      process: "api",
      msg: "request",
      requestId,
      method: "GET",
      route: "/v1/networks",
      status: 200,
      ms: expect.any(Number),
    });
    expect(world.log()).not.toContain(secret);
  });
});

describe("the error envelope", () => {
  test("404 for an unknown path, with request id and time", async () => {
    const { status, body, headers } = await client.get("/v1/nowhere");
    expect(status).toBe(404);
    expect(body).toEqual({
      error: { code: "NOT_FOUND", message: expect.any(String) },
      meta: { requestId: headers.get("x-request-id"), timestamp: expect.stringMatching(ISO) },
    });
    expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
  });

  test.each([
    ["POST", "/v1/networks", "GET"],
    ["DELETE", REGISTER, "POST"],
    ["GET", REGISTER, "POST"],
    ["PUT", "/v1/auth/me", "GET, PATCH"],
    ["POST", "/v1/api-keys/key_1", "DELETE"],
  ])("405 for %s %s, saying what is allowed", async (method, path, allowed) => {
    const answer = await fetch(`${world.baseUrl}${path}`, { method });
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toBe(allowed);
    expect(await answer.json()).toMatchObject({
      error: { code: "VALIDATION_ERROR", details: { field: "method" } },
      meta: { requestId: answer.headers.get("x-request-id") },
    });
  });

  test.each(["{", "", "{'email':1}", '{"email":"a@b.co"', "\u0000", "nul", '{"a":1}}'])(
    "400 for a body that is not JSON: %j",
    async (text) => {
      const answer = await client.post(REGISTER, text);
      expect(answer.status).toBe(400);
      expect(answer.body.error.code).toBe("VALIDATION_ERROR");
    },
  );

  test("400 for bodies that are not declared as JSON", async () => {
    const json = JSON.stringify({ email: "a@example.com" });
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/octet-stream",
      "application/xml",
    ]) {
      const answer = await client.post(REGISTER, json, { "content-type": type });
      expect(answer.status).toBe(400);
      expect(answer.body.error.details.field).toBe("content-type");
    }
    const form = new FormData();
    form.set("email", "a@example.com");
    const answer = await fetch(`${world.baseUrl}${REGISTER}`, { method: "POST", body: form });
    expect(answer.status).toBe(400);
  });

  test("413 for a body over 1 MiB, announced or not; one of 1 MiB is read", async () => {
    const bodyOf = (bytes: number) => {
      const frame = JSON.stringify({ email: "a", pad: "" });
      return frame.replace('"pad":""', `"pad":"${"x".repeat(bytes - frame.length)}"`);
    };
    expect((await client.post(REGISTER, bodyOf(1_048_576))).body.error.details.field).toBe("email");
    const announced = await client.post(REGISTER, bodyOf(1_048_577));
    expect(announced.status).toBe(413);
    expect(announced.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field: "body" } });
    const bytes = new TextEncoder().encode(bodyOf(2_000_000));
    const chunked = await fetch(`${world.baseUrl}${REGISTER}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: new ReadableStream({
        start(controller) {
          for (let at = 0; at < bytes.length; at += 65_536)
            controller.enqueue(bytes.subarray(at, at + 65_536));
          controller.close();
        },
      }),
    });
    expect(chunked.status).toBe(413);
    expect(await chunked.json()).toMatchObject({ error: { code: "VALIDATION_ERROR" } });
  });

  test.each([REGISTER, "/v1/x402/link_AAAAAAAAAAAAAAAAAAAAAA/pay"])(
    "413 in the envelope however large a body of %s is, announced or in chunks without end",
    async (path) => {
      const megabyte = Buffer.alloc(1_048_576, 120);
      const announced = await sendRaw(path, "content-length: 5368709120", megabyte);
      const chunk = Buffer.concat([Buffer.from("100000\r\n"), megabyte, Buffer.from("\r\n")]);
      const chunked = await sendRaw(path, "transfer-encoding: chunked", chunk);
      for (const { head, body } of [announced, chunked]) {
        expect(head).toStartWith("HTTP/1.1 413 ");
        expect(head.toLowerCase()).toContain("x-request-id: req_");
        expect(JSON.parse(body)).toMatchObject({
          error: { code: "VALIDATION_ERROR", details: { field: "body", issue: "too_large" } },
          meta: { requestId: expect.any(String) },
        });
      }
    },
  );

  test.each([
    ["{}", "email is missing"],
    ['{"email":5}', "email must be text"],
    ["[]", "body must be an object"],
    ['{"email":"nonsense"}', "email must be an e-mail address"],
  ])("a message says what is wrong with %s", async (body, message) => {
    expect((await client.post(REGISTER, body)).body.error.message).toBe(message);
  });

  test("400 for a body that is not UTF-8, announced or in chunks; what is UTF-8 arrives unchanged", async () => {
    const send = (bytes: Uint8Array, isChunked: boolean) =>
      fetch(`${world.baseUrl}${REGISTER}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: isChunked ? new Blob([bytes]).stream() : bytes,
      });
    for (const isChunked of [false, true]) {
      const latin1 = Buffer.from(`{"email":"caf\xe9-${isChunked}@example.com"}`, "latin1");
      const refused = await send(latin1, isChunked);
      expect(refused.status).toBe(400);
      const { error } = (await refused.json()) as { error: unknown };
      const details = { field: "body", issue: "invalid_json" };
      expect(error).toEqual({ code: "VALIDATION_ERROR", message: "The body is not valid UTF-8", details });
      const form = await fetch(`${world.baseUrl}${REGISTER}`, {
        ...{ method: "POST", headers: { "content-type": "application/octet-stream" }, body: latin1 },
      });
      expect(await form.json()).toMatchObject({ error: { details: { field: "content-type" } } });
      const utf8 = Buffer.from(`\ufeff{"email":"whole-${isChunked}@example.com","x":"\ufffd é 書"}`);
      expect((await send(utf8, isChunked)).status).toBe(201);
    }
  });

  test("400 for half of a surrogate pair anywhere in a body; a whole pair is accepted", async () => {
    for (const [field, body] of [
      ["email", '{"email":"a@example.com\\ud800"}'],
      ["x.0.y", '{"email":"a@example.com","x":[{"y":"\\uDFFF"}]}'],
      ["x.0", '{"email":"a@example.com","x":[{"y\\ud83d":1}]}'],
      ["body", '{"email":"a@example.com","\\ude00\\ud83d":1}'],
    ] as const)
      expect((await client.post(REGISTER, body)).body.error.details).toEqual({
        field,
        issue: "invalid_text",
      });
    const whole = await client.post(
      REGISTER,
      '{"email":"surrogate@example.com","x":["\\ud83d\\ude00","\\\\ud800"]}',
    );
    expect(whole.status).toBe(201);
  });

  test.each([
    ["limit=101", "limit must be at most 100"],
    ["limit=1&limit=2", "limit must be given once"],
    ["types=NOPE", "types must be SEND, RECEIVE or PAYMENT_LINK"],
    ["currencies=EUR", "currencies must be USDC"],
    [`search=${"x".repeat(201)}`, "search must have at most 200 characters"],
  ])("and with the query %s", async (query, message) => {
    const merchant = await signUp(world.baseUrl);
    expect((await merchant.client.get(`/v1/transactions?${query}`)).body.error.message).toBe(message);
  });

  test("414 for a URL above 16,384 characters, on every route", async () => {
    const longest = (path: string, more = 0) => {
      const start = `${world.baseUrl}${path}?x=`;
      return `${start}${"x".repeat(16_384 + more - start.length)}`;
    };
    for (const path of ["/health/live", "/v1/transactions", "/nothing-is-here"]) {
      const answer = await fetch(longest(path, 1));
      expect(answer.status).toBe(414);
      expect(await answer.json()).toMatchObject({
        error: { code: "VALIDATION_ERROR", details: { field: "url", issue: "too_large" } },
      });
    }
    expect((await fetch(longest("/health/live"))).status).toBe(200);
  });

  test.each([
    ["different", (at: number) => `a${at}`],
    ["equal", () => "a"],
  ])("thousands of %s parameters are parsed in time proportional to their number", async (_what, nameOf) => {
    const names = Array.from({ length: 2_700 }, (_, at) => nameOf(at));
    const fetchMs = async (count: number) => {
      const url = `${world.baseUrl}/health/live?${names.slice(0, count).join("&")}`;
      const startedMs = performance.now();
      expect((await fetch(url)).status).toBe(200);
      return performance.now() - startedMs;
    };
    // the fastest of each, since another process may run meanwhile; nine times as many take 81 times as long where each key reads all
    let [few, many] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (let round = 0; round < 20 || (round < 200 && many / few >= 14); round++) {
      few = Math.min(few, await fetchMs(300));
      many = Math.min(many, await fetchMs(2_700));
    }
    expect(many / few).toBeLessThan(14);
  });

  test("a multi-byte body counts by its bytes", async () => {
    const pad = "€".repeat(400_000);
    expect((await client.post(REGISTER, JSON.stringify({ email: "a", pad }))).status).toBe(413);
  });

  test.each([
    "/%00",
    "/v1/api-keys/%00",
    "/v1/api-keys/%zz",
    "/v1/api-keys/..%2f..%2fetc",
    "/v1/api-keys/%ff%fe",
    "/v1/api-keys/key_%E2%80%AE",
    "//v1//networks",
    "/v1/networks/../auth/me",
    "/v1/networks;x=1",
    `/v1/api-keys/${"a".repeat(5_000)}`,
  ])("an unusual path is never a 5xx: %s", async (path) => {
    const answer = await client.get(path);
    expect([200, 400, 401, 404, 405]).toContain(answer.status);
    expect(answer.status === 200 || typeof answer.body.error.code === "string").toBe(true);
  });

  test("deep and wide JSON is refused safely", async () => {
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    expect((await client.post(REGISTER, `{"email":${deep}}`)).status).toBe(400);
    const wide = JSON.stringify(
      Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`k${index}`, index])),
    );
    expect((await client.post(REGISTER, wide)).status).toBe(400);
    expect((await client.post(REGISTER, '{"__proto__":{"email":"a@example.com"}}')).status).toBe(400);
  });
});

test("HEAD answers where GET does, without a body", async () => {
  const answer = await fetch(`${world.baseUrl}/health/live`, { method: "HEAD" });
  expect(answer.status).toBe(200);
  expect(await answer.text()).toBe("");
});

test("a connection that sends nothing is closed, and a slow one does not hold others up", async () => {
  const { port } = new URL(world.baseUrl);
  const socket = connect(Number(port), "127.0.0.1");
  socket.write(
    "POST /v1/identity/register HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{",
  );
  // the slow one is not waited for, which is given longer
  const started = performance.now();
  expect((await client.get("/health/live")).status).toBe(200);
  expect(performance.now() - started).toBeLessThan(9_000);
  socket.destroy();
});

describe("networks and currencies", () => {
  test("only enabled networks, in the documented shape", async () => {
    const { status, body } = await client.get("/v1/networks");
    expect(status).toBe(200);
    expect(body).toEqual({
      success: true,
      data: {
        networks: [
          {
            id: "base-sepolia",
            name: "base-sepolia",
            chainId: 84_532,
            enabled: true,
            displayName: "Base Sepolia",
            color: expect.stringMatching(/^#[0-9A-F]{6}$/),
            icon: expect.any(String),
            explorerUrl: "https://sepolia.basescan.org/tx/",
            description: expect.any(String),
          },
        ],
      },
      message: expect.any(String),
    });
  });

  test("only USDC", async () => {
    const { status, body } = await client.get("/v1/networks/currencies");
    expect(status).toBe(200);
    expect(body).toMatchObject({
      success: true,
      data: { currencies: [{ code: "USDC", symbol: "$", decimals: 6 }] },
      message: expect.any(String),
    });
    expect(body.data.currencies).toHaveLength(1);
  });
});
