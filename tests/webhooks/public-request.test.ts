/** One request to a third party's server: where it may go, and when what comes back is an answer. */
import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { getFile, type Lookup, postWebhook, WebhookError } from "../../worker/webhooks/public-request.ts";

/** An answer that needs nothing more is not waited for: less than a body that does not end gets. */
const AT_ONCE_MS = 1_500;
const ASKED_MAX = 10;
const BODY_TIMEOUT_MS = 2_000;
const ANSWER_MAX_BYTES = 16 * 1024;
const HEAD_MAX_BYTES = 64 * 1024;
const servers: Server[] = [];
const sockets = new Set<Socket>();

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function listen(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as { port: number }).port;
}

/** A server that writes these pieces, one after the other, and leaves the connection open unless `isEnded`. */
function answering(pieces: readonly string[], { isEnded = false } = {}): Promise<number> {
  return listen(
    createServer((socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.once("data", async () => {
        for (const piece of pieces) {
          socket.write(piece);
          await Bun.sleep(20);
        }
        if (isEnded) socket.end();
      });
    }),
  );
}

const post = (port: number, url = `http://127.0.0.1:${port}/`) =>
  postWebhook(new URL(url), { headers: {}, body: "{}", allowPrivate: true });

/** Asked again when it took longer than an answer that needs nothing more should: others on the machine may have delayed it. */
async function timedAgain<T>(ask: () => Promise<T>): Promise<{ value: T; ms: number }> {
  let found = await timed(ask());
  for (let asked = 1; asked < ASKED_MAX && found.ms >= AT_ONCE_MS; asked++) found = await timed(ask());
  return found;
}

async function timed<T>(work: Promise<T>): Promise<{ value: T; ms: number }> {
  const startedMs = performance.now();
  return { value: await work, ms: performance.now() - startedMs };
}

describe("an answer on a connection that stays open is complete", () => {
  test.each([
    [
      "with the length that it announced",
      ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", "cd"],
      200,
      "abcd",
    ],
    ["with no body, where its status has none", ["HTTP/1.1 204 Done\r\n\r\n"], 204, ""],
    [
      "with its last chunk, in two pieces",
      ["HTTP/1.1 200 OK\r\n\r\n2\r\nok\r\n0\r", "\n\r\n"],
      200,
      "2\r\nok\r\n0\r\n\r\n",
    ],
    [
      "after interim ones",
      ["HTTP/1.1 103 Hints\r\n\r\n", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"],
      500,
      "",
    ],
  ] as const)("%s", async (_how, pieces, status, body) => {
    const port = await answering(pieces);
    const { value, ms } = await timedAgain(() => post(port));
    expect(value).toEqual({ status, body });
    expect(ms).toBeLessThan(AT_ONCE_MS);
  });

  test("with as much as is kept of it", async () => {
    const port = await answering([`HTTP/1.1 200 OK\r\n\r\n${"x".repeat(ANSWER_MAX_BYTES)}`]);
    const { value, ms } = await timedAgain(() => post(port));
    expect(value.status).toBe(200);
    expect(ms).toBeLessThan(AT_ONCE_MS);
  });
});

test("a body that lacks a byte is waited for, and then the status is the answer all the same", async () => {
  const { value, ms } = await timed(
    post(await answering(["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"])),
  );
  expect(value).toEqual({ status: 200, body: "abc" });
  expect(ms).toBeGreaterThanOrEqual(BODY_TIMEOUT_MS - 50);
});

test("error: no answer, half of one, other text, and headers without an end each have their reason", async () => {
  const ended = { isEnded: true };
  await expect(post(await answering([], ended))).rejects.toThrow("without an answer");
  await expect(post(await answering(["HTTP/1.1 200 OK\r\nA: b"], ended))).rejects.toThrow(
    "within its answer",
  );
  await expect(post(await answering(["hello\r\n\r\n"], ended))).rejects.toThrow("did not answer in HTTP");
  const port = await answering(["x".repeat(HEAD_MAX_BYTES)]);
  const endless = await timedAgain(() => post(port).catch((error) => error));
  expect(endless.value.message).toContain("did not answer in HTTP");
  expect(endless.ms).toBeLessThan(AT_ONCE_MS);
});

test("a receiver that has sent its status and breaks the connection has answered", async () => {
  const port = await listen(
    createServer((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
        setTimeout(() => socket.resetAndDestroy(), 50);
      });
    }),
  );
  expect((await post(port)).status).toBe(200);
});

describe("a request", () => {
  const resolved: string[] = [];
  const lookup: Lookup = async (host) => {
    resolved.push(host);
    // longer than no time at all
    await Bun.sleep(30);
    return host === "nowhere.example.test" ? [] : [{ address: "127.0.0.1" }];
  };
  const reason = (url: string, allowPrivate: boolean) =>
    postWebhook(new URL(url), { headers: {}, body: "{}", allowPrivate, lookup }).then(
      ({ status }) => status,
      (error) => (error instanceof WebhookError ? error.message : error),
    );
  const NOT_PUBLIC = "the name shop.example.test resolves to an address that is not public";

  test("goes over https only, to a port of its own kind, unless private receivers are allowed", async () => {
    resolved.length = 0;
    expect(await reason("http://shop.example.test/", false)).toBe("only https is allowed");
    expect(await reason("ftp://shop.example.test/", true)).toBe("only https is allowed");
    expect(await reason("https://shop.example.test:22/", false)).toBe("port 22 is not allowed");
    expect(resolved).toEqual([]);
    expect(await reason("https://shop.example.test/", false)).toBe(NOT_PUBLIC);
    expect(await reason("https://shop.example.test:8443/", false)).toBe(NOT_PUBLIC);
  });

  test("goes to the address of its name, with http to a private one where that is allowed", async () => {
    const port = await answering(["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]);
    expect(await reason(`http://shop.example.test:${port}/`, true)).toBe(200);
    expect(await reason("https://nowhere.example.test/", false)).toBe(
      "the name nowhere.example.test does not resolve",
    );
    expect(await reason("http://nowhere.example.test/", true)).toBe(
      "the name nowhere.example.test does not resolve",
    );
  });

  test("goes to an IPv6 address as well", async () => {
    const server = createServer((socket) => {
      socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "::1", resolve));
    const { port } = server.address() as { port: number };
    expect((await post(port, `http://[::1]:${port}/`)).status).toBe(200);
  });

  test("asks for the certificate of its name, and of none for an address", async () => {
    const names: string[] = [];
    const named = createTlsServer({ SNICallback: (name, done) => done(new Error(String(names.push(name)))) });
    named.on("tlsClientError", () => {});
    const port = await listen(named);
    await reason(`https://shop.example.test:${port}/`, true);
    await reason(`https://127.0.0.1:${port}/`, true);
    expect(names).toEqual(["shop.example.test"]);
  });

  test("error: with a certificate that nobody has signed, and without TLS, each has its reason", async () => {
    const read = (name: string) => readFileSync(join(import.meta.dir, "certificates", name), "utf8");
    const stranger = createTlsServer({ cert: read("stranger.cert.pem"), key: read("stranger.key.pem") });
    stranger.on("tlsClientError", () => {});
    expect(await reason(`https://shop.example.test:${await listen(stranger)}/`, true)).toContain(
      "certificate was refused",
    );
    const plain = await answering(["HTTP/1.1 400 Bad Request\r\n\r\n"], { isEnded: true });
    expect(await reason(`https://shop.example.test:${plain}/`, true)).toContain("no TLS connection");
    expect(await reason("http://shop.example.test:9/", true)).toContain("could not be reached");
  });
});

describe("a file", () => {
  const get = (port: number) =>
    getFile(new URL(`http://127.0.0.1:${port}/rates.csv`), { allowPrivate: true });
  const head = (status: string, length: number) => `HTTP/1.1 ${status}\r\nContent-Length: ${length}\r\n\r\n`;

  test("is all that the status 200 announced", async () => {
    expect(await get(await answering([`${head("200 OK", 4)}ab`, "cd"]))).toBe("abcd");
  });

  test("error: is none with another status, another length or without one", async () => {
    const ended = { isEnded: true };
    await expect(get(await answering([`${head("404 None", 4)}abcd`], ended))).rejects.toThrow("answered 404");
    await expect(get(await answering([`${head("200 OK", 4)}abc`], ended))).rejects.toThrow(
      "the file is incomplete",
    );
    await expect(get(await answering([`${head("200 OK", 4)}abcde`], ended))).rejects.toThrow(
      "the file is incomplete",
    );
    await expect(get(await answering(["HTTP/1.1 200 OK\r\n\r\nabcd"], ended))).rejects.toThrow(
      "the file is incomplete",
    );
  });
});
