/**
 * A simple HTTP load balancer: round robin over the servers whose /health/ready was 200 when it last asked, kept-alive connections to each,
 * and no second attempt: a request that its server does not answer is a failure that the client sees as 502.
 */
import { connect, type Socket } from "node:net";

export type Balancer = {
  url: string;
  /** Requests that got no answer, with the reason. */
  failures: string[];
  /** Answers by server and status: "http://localhost:1 200". */
  answers: Record<string, number>;
  isReady: (upstream: string) => boolean;
  stop: () => Promise<void>;
};

type Upstream = { url: string; port: number; isReady: boolean; idle: Socket[] };
type Answer = { status: number; headers: Headers; body: Buffer; keepsConnection: boolean };

const HEALTH_INTERVAL_MS = 100;
const HEALTH_TIMEOUT_MS = 4_000;
const CRLF = "\r\n";

export function startBalancer(urls: readonly string[]): Balancer {
  const upstreams = urls.map(
    (url): Upstream => ({ url, port: Number(new URL(url).port), isReady: false, idle: [] }),
  );
  const failures: string[] = [];
  const answers: Record<string, number> = {};
  let turn = 0;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 120,
    async fetch(request) {
      const able = upstreams.filter(({ isReady }) => isReady);
      const upstream = able[turn++ % Math.max(able.length, 1)];
      if (!upstream) {
        failures.push("no server is ready");
        return new Response("no server is ready", { status: 503 });
      }
      const { pathname, search } = new URL(request.url);
      try {
        const { status, headers, body } = await ask(upstream, await toBytes(request, pathname + search));
        const name = `${upstream.url} ${status}`;
        answers[name] = (answers[name] ?? 0) + 1;
        return new Response(new Uint8Array(body), { status, headers });
      } catch (error) {
        failures.push(`${request.method} ${pathname} at ${upstream.url}: ${error}`);
        return new Response("bad gateway", { status: 502 });
      }
    },
  });
  let isOver = false;
  const checking = Promise.all(
    upstreams.map(async (upstream) => {
      while (!isOver) {
        upstream.isReady = await isReady(upstream.url);
        await Bun.sleep(HEALTH_INTERVAL_MS);
      }
    }),
  );
  return {
    url: `http://127.0.0.1:${server.port}`,
    failures,
    answers,
    isReady: (url) => upstreams.some((upstream) => upstream.url === url && upstream.isReady),
    async stop() {
      isOver = true;
      await Promise.all([checking, server.stop(true)]);
      for (const { idle } of upstreams) for (const socket of idle) socket.destroy();
    },
  };
}

async function isReady(url: string): Promise<boolean> {
  try {
    // a connection of its own: the state of a new one is what counts
    const headers = { connection: "close" };
    const signal = AbortSignal.timeout(HEALTH_TIMEOUT_MS);
    return (await fetch(`${url}/health/ready`, { headers, signal })).ok;
  } catch {
    return false;
  }
}

async function toBytes(request: Request, path: string): Promise<Buffer> {
  const body = Buffer.from(await request.arrayBuffer());
  const type = request.headers.get("content-type");
  const lines = [
    `${request.method} ${path} HTTP/1.1`,
    "host: localhost",
    ...(type ? [`content-type: ${type}`] : []),
    `content-length: ${body.length}`,
  ];
  return Buffer.concat([Buffer.from(lines.join(CRLF) + CRLF + CRLF), body]);
}

/** One request on a kept connection, else on a new one. */
async function ask(upstream: Upstream, bytes: Buffer): Promise<Answer> {
  const socket = upstream.idle.pop() ?? (await open(upstream));
  const answer = await exchange(socket, bytes);
  if (answer.keepsConnection && !socket.destroyed) upstream.idle.push(socket);
  else socket.destroy();
  return answer;
}

function open(upstream: Upstream): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect({ host: "127.0.0.1", port: upstream.port, noDelay: true }, () => resolve(socket));
  socket.on("error", reject);
  socket.on("close", () => {
    const place = upstream.idle.indexOf(socket);
    if (place >= 0) upstream.idle.splice(place, 1);
  });
  return promise;
}

function exchange(socket: Socket, bytes: Buffer): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  let received = Buffer.alloc(0);
  const onData = (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    const answer = parseAnswer(received);
    if (answer) end(() => resolve(answer));
  };
  const onClose = () => end(() => reject(new Error("the connection was closed before the answer")));
  const end = (settle: () => void) => {
    socket.off("data", onData);
    socket.off("close", onClose);
    settle();
  };
  socket.on("data", onData);
  socket.on("close", onClose);
  socket.write(bytes);
  return promise;
}

/** Undefined while bytes are missing. */
function parseAnswer(received: Buffer): Answer | undefined {
  const end = received.indexOf(CRLF + CRLF);
  if (end < 0) return undefined;
  const [statusLine = "", ...lines] = received.subarray(0, end).toString("latin1").split(CRLF);
  const headers = new Headers(
    lines.map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    }),
  );
  const length = Number(headers.get("content-length"));
  if (headers.get("content-length") === null || received.length < end + 4 + length) {
    if (headers.has("transfer-encoding")) throw new Error("this balancer reads whole answers only");
    return undefined;
  }
  const keepsConnection = headers.get("connection")?.toLowerCase() !== "close";
  for (const name of ["connection", "keep-alive", "content-length"]) headers.delete(name);
  const status = Number(statusLine.split(" ")[1]);
  return { status, headers, body: received.subarray(end + 4, end + 4 + length), keepsConnection };
}
