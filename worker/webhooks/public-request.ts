/**
 * One HTTP request to a third-party host: a POST to a receiver chosen by a merchant, or a GET of a file. The name is resolved once, every address
 * must be public, and the connection goes to one of the very addresses that were checked, so DNS rebinding gains nothing. TLS still checks the
 * certificate against the name. Redirects are not followed. Implemented on sockets, because fetch resolves names itself.
 */
import { lookup } from "node:dns/promises";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { isWebhookPort } from "../../core/domain/webhook.ts";
import { isPublicAddress } from "../../core/runtime/public-ip-ranges.ts";

export type WebhookAnswer = { status: number; body: string };

/** Describes the failure to the owner of the endpoint; reveals nothing about our network. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
}

/** Nothing was sent. */
class UnconnectedError extends WebhookError {}

export type Lookup = (host: string) => Promise<readonly { address: string }[]>;
const lookupAll: Lookup = (host) => lookup(host, { all: true });

const TIMEOUT_MS = 10_000;
/** Of a name's addresses, for one that does not work; each but the last gets this long to accept a connection. */
const ADDRESSES_MAX = 3;
const CONNECT_TIMEOUT_MS = 3_000;
/** Time limit for the body after the headers. */
const BODY_TIMEOUT_MS = 2_000;
const ANSWER_MAX_BYTES = 16 * 1024;
const HEAD_MAX_BYTES = 64 * 1024;
const FILE_TIMEOUT_MS = 60_000;
const FILE_MAX_BYTES = 16 * 1024 * 1024;
const USER_AGENT = "usdc-payment-service/1 (+webhooks)";

/** Throws WebhookError when there was no HTTP response. `allowPrivate` admits http and private addresses. */
export async function postWebhook(
  url: URL,
  {
    headers,
    body,
    ...given
  }: { headers: Record<string, string>; body: string; allowPrivate: boolean; lookup?: Lookup },
): Promise<WebhookAnswer> {
  const limits = { timeoutMs: TIMEOUT_MS, bodyTimeoutMs: BODY_TIMEOUT_MS, maxBytes: ANSWER_MAX_BYTES };
  const answer = await send(url, { text: requestText(url, headers, body), ...given, limits });
  return parseAnswer(answer);
}

/** A file by GET, with the same guards. Throws WebhookError unless all of it came with the status 200. */
export async function getFile(url: URL, { allowPrivate }: { allowPrivate: boolean }): Promise<string> {
  const limits = { timeoutMs: FILE_TIMEOUT_MS, bodyTimeoutMs: FILE_TIMEOUT_MS, maxBytes: FILE_MAX_BYTES };
  // HTTP/1.0 has no chunks
  const text = `GET ${url.pathname}${url.search} HTTP/1.0\r\nhost: ${url.host}\r\nuser-agent: ${USER_AGENT}\r\naccept: */*\r\nconnection: close\r\n\r\n`;
  const answer = await send(url, { text, allowPrivate, limits });
  const { status, body } = parseAnswer(answer);
  if (status !== 200) throw new WebhookError(`answered ${status}`);
  if (!isComplete(answer)) throw new WebhookError("the file is incomplete, or has no content length");
  return body;
}

type Limits = { timeoutMs: number; bodyTimeoutMs: number; maxBytes: number };

async function send(
  url: URL,
  {
    text,
    allowPrivate,
    limits,
    lookup = lookupAll,
  }: { text: string; allowPrivate: boolean; limits: Limits; lookup?: Lookup },
): Promise<Buffer> {
  const isTls = url.protocol === "https:";
  if (!isTls && !(allowPrivate && url.protocol === "http:")) throw new WebhookError("only https is allowed");
  const port = Number(url.port || (isTls ? 443 : 80));
  if (!allowPrivate && !isWebhookPort(port)) throw new WebhookError(`port ${port} is not allowed`);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const deadline = performance.now() + limits.timeoutMs;
  const addresses = await inTime(
    resolvePublic(host, { allowPrivate, lookup }),
    deadline,
    `the name ${host} does not resolve`,
  );
  for (const [index, address] of addresses.entries()) {
    const isLast = index === addresses.length - 1;
    const socket = isTls
      ? connectTls({
          host: address,
          port,
          ...(host === address ? {} : { servername: host }),
          ALPNProtocols: ["http/1.1"],
        })
      : connect({ host: address, port });
    try {
      return await exchange(socket, { request: text, isTls, isLast, deadline, limits });
    } catch (error) {
      if (isLast || !(error instanceof UnconnectedError)) throw error;
    } finally {
      socket.destroy();
    }
  }
  throw new WebhookError(`the name ${host} does not resolve`);
}

/** An unresponsive resolver is not waited for. */
async function inTime<T>(work: Promise<T>, deadline: number, otherwise: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new WebhookError(otherwise)), Math.max(0, deadline - performance.now()));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function resolvePublic(
  host: string,
  { allowPrivate, lookup }: { allowPrivate: boolean; lookup: Lookup },
): Promise<string[]> {
  const found = await lookup(host).catch(() => []);
  if (!allowPrivate && !found.every(({ address }) => isPublicAddress(address)))
    throw new WebhookError(`the name ${host} resolves to an address that is not public`);
  return found.slice(0, ADDRESSES_MAX).map(({ address }) => address);
}

function requestText(url: URL, headers: Record<string, string>, body: string): string {
  const fields = {
    host: url.host,
    "user-agent": USER_AGENT,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    accept: "*/*",
    connection: "close",
    ...headers,
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  return `POST ${url.pathname}${url.search} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body}`;
}

/** Sends, then reads until the response is complete, the peer ends, enough was read, or the time limit is reached. */
function exchange(
  socket: Socket,
  {
    request,
    isTls,
    isLast,
    deadline,
    limits,
  }: { request: string; isTls: boolean; isLast: boolean; deadline: number; limits: Limits },
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const answer = receive();
    let bodyTimer: ReturnType<typeof setTimeout> | undefined;
    let isConnected = false;
    const fail = (message: string) => {
      clearTimeout(timer);
      clearTimeout(connectTimer);
      reject(new (isConnected ? WebhookError : UnconnectedError)(message));
    };
    const connectTimer = isLast
      ? undefined
      : setTimeout(() => fail("no connection in time"), CONNECT_TIMEOUT_MS);
    const timer = setTimeout(
      () => fail(`no answer within ${limits.timeoutMs / 1000} seconds`),
      Math.max(0, deadline - performance.now()),
    );
    const end = () => {
      clearTimeout(timer);
      clearTimeout(bodyTimer);
      if (answer.hasHead() || answer.bytes() >= HEAD_MAX_BYTES) resolve(answer.join());
      else if (answer.bytes() > 0) fail("the receiver ended the connection within its answer");
      else fail("the receiver ended the connection without an answer");
    };
    socket.once(isTls ? "secureConnect" : "connect", () => {
      isConnected = true;
      clearTimeout(connectTimer);
      socket.write(request);
    });
    socket.on("data", (piece: Buffer) => {
      answer.add(piece);
      if (answer.bytes() >= (answer.hasHead() ? limits.maxBytes : HEAD_MAX_BYTES) || answer.isWhole()) end();
      // the status is the answer; the rest is for the log
      else if (answer.hasHead()) bodyTimer ??= setTimeout(end, limits.bodyTimeoutMs);
    });
    socket.once("end", end);
    socket.once("close", end);
    socket.once("error", (error) => {
      if (answer.hasHead()) return end();
      fail(describeFailure(error));
    });
  });
}

const LAST_CHUNK = "\r\n0\r\n\r\n";

/** A response as it arrives. Only the headers are searched for in joined chunks: joining a long body on every chunk would be quadratic. */
function receive() {
  const pieces: Buffer[] = [];
  let bytes = 0;
  let head: Head | undefined;
  let tail = Buffer.alloc(0);
  let hasLastChunk = false;
  return {
    bytes: () => bytes,
    hasHead: () => head !== undefined,
    join: () => Buffer.concat(pieces),
    add: (piece: Buffer) => {
      pieces.push(piece);
      bytes += piece.length;
      head ??= headOf(Buffer.concat(pieces));
      const end = Buffer.concat([tail, piece]);
      hasLastChunk ||= end.includes(LAST_CHUNK);
      tail = end.subarray(-(LAST_CHUNK.length - 1));
    },
    /** The headers are complete, and the body has at least the announced length. */
    isWhole: () => {
      if (!head) return false;
      const length = /^content-length:\s*(\d+)\s*$/im.exec(head.text)?.[1];
      if (length !== undefined) return bytes - head.bytes >= Number(length);
      return /^HTTP\/1\.[01] (204|304)/.test(head.text) || hasLastChunk;
    },
  };
}

/** The body has exactly the announced length. */
function isComplete(answer: Buffer): boolean {
  const head = headOf(answer);
  const length = /^content-length:\s*(\d+)\s*$/im.exec(head?.text ?? "")?.[1];
  return head !== undefined && length !== undefined && answer.length - head.bytes === Number(length);
}

function parseAnswer(answer: Buffer): WebhookAnswer {
  const head = headOf(answer) ?? { text: answer.toString("latin1"), bytes: answer.length };
  const status = /^HTTP\/1\.[01] (\d{3})(?: |\r|\n|$)/.exec(head.text)?.[1];
  if (!status) throw new WebhookError("the receiver did not answer in HTTP");
  return { status: Number(status), body: answer.subarray(head.bytes).toString("utf8") };
}

type Head = { text: string; bytes: number };

/** The headers of the final response, after interim ones: 100 and 103 (RFC 9110, 15.2). */
function headOf(answer: Buffer): Head | undefined {
  for (let start = 0; ; ) {
    const end = answer.indexOf("\r\n\r\n", start);
    if (end < 0) return undefined;
    const text = answer.subarray(start, end).toString("latin1");
    if (!/^HTTP\/1\.[01] 1\d\d/.test(text)) return { text, bytes: end + 4 };
    start = end + 4;
  }
}

function describeFailure(error: Error): string {
  const code = "code" in error ? String(error.code) : error.name;
  if (/CERT|ALTNAME|SELF_SIGNED|UNABLE_TO/i.test(code))
    return `the receiver's certificate was refused (${code})`;
  if (/TLS|SSL/i.test(code)) return `the receiver offered no TLS connection we can use (${code})`;
  return `the receiver could not be reached (${code})`;
}
