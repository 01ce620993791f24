/** What every answer to a malformed request must be. */

/** A request that hangs; a busy machine alone does not take as long. */
const ANSWER_MAX_MS = 30_000;

/** Statuses Bun gives by itself before any of our code: their body is empty. */
const BEFORE_US = new Set([400, 413, 431]);
/** What a stack, a driver or a file system would say. */
const LEAK =
  /\bat .*\.(ts|js|mjs):\d+|node_modules|PostgresError|SQLSTATE|syntax error at|ENOENT|\/work\/|viem/;

export type Seen = { status: number; text: string; headers: Headers; ms: number };

/** The faults of an answer; none for a good one. */
export function checkAnswer(path: string, { status, text, headers, ms }: Seen): string[] {
  const faults: string[] = [];
  if (status >= 500) faults.push(`answered ${status}`);
  if (ms > ANSWER_MAX_MS) faults.push(`took ${Math.round(ms)} ms`);
  if (LEAK.test(text)) faults.push("leaks internals");
  if (BEFORE_US.has(status) && text === "" && headers.get("x-request-id") === null) return faults;
  if (headers.get("x-api-version") !== "v1") faults.push("has no X-API-Version");
  if (headers.get("x-request-id") === null) faults.push("has no request id");
  if (status >= 400 && status !== 402 && text !== "" && !isKnownError(path, status, text))
    faults.push("is not the error envelope");
  return faults;
}

function isKnownError(path: string, status: number, text: string): boolean {
  const body = parse(text);
  if (typeof body !== "object" || body === null) return false;
  if (path.startsWith("/v1/auth/verify") && status === 401)
    return "verified" in body && body.verified === false;
  // x402 answers in its own documented shape
  if (path.includes("/x402/") && "success" in body) return body.success === false && "error" in body;
  if (!("error" in body) || typeof body.error !== "object" || body.error === null) return false;
  if (!("meta" in body) || typeof body.meta !== "object" || body.meta === null) return false;
  return (
    "code" in body.error && "message" in body.error && "requestId" in body.meta && "timestamp" in body.meta
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
