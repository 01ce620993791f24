/** One request with its retries. Only what is safe to repeat is repeated: reads, requests with an Idempotency-Key, and refusals by a rate limit. */
import { ApiError, ConnectionError } from "./errors.ts";

export type ClientOptions = {
  /** Origin of the service, for example https://pay.example.com. */
  baseUrl: string;
  /** `sk_…`; not needed for public routes. Never give one to a browser. */
  apiKey?: string;
  fetch?: typeof fetch;
  /** Attempts after the first; default 4. */
  retries?: number;
  timeoutMs?: number;
};

export type Call = {
  method: "GET" | "POST" | "DELETE" | "PATCH";
  path: string;
  query?: Readonly<Record<string, unknown>> | undefined;
  body?: unknown;
  /** For routes that declare the header. The same key with the same body is answered as the first time. */
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
};

const RETRIES = 4;
const TIMEOUT_MS = 30_000;
const PAUSE_MS = 250;
const PAUSE_MAX_MS = 8_000;
const RETRY_AFTER_MAX_S = 60;

/** The answer, when it is a success; throws ApiError or ConnectionError. */
export async function request(options: ClientOptions, call: Call): Promise<Response> {
  const isRepeatable = call.method === "GET" || call.idempotencyKey !== undefined;
  for (let attempt = 0; ; attempt += 1) {
    const isLast = attempt >= (options.retries ?? RETRIES);
    const answer = await send(options, call).catch((error: unknown) => {
      if (call.signal?.aborted) throw error;
      if (isLast || !isRepeatable)
        throw new ConnectionError(`${call.method} ${call.path} was not answered`, { cause: error });
      return undefined;
    });
    if (answer?.ok) return answer;
    const mayPass = answer === undefined || answer.status === 429 || (isRepeatable && answer.status >= 500);
    if (answer && (isLast || !mayPass)) throw await toApiError(answer);
    await pause(pauseMs(attempt, answer), call.signal);
  }
}

function send(options: ClientOptions, call: Call): Promise<Response> {
  const url = new URL(call.path, options.baseUrl);
  for (const [name, value] of Object.entries(call.query ?? {}))
    if (value !== undefined) for (const one of [value].flat()) url.searchParams.append(name, String(one));
  const timeout = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
  return (options.fetch ?? fetch)(url, {
    method: call.method,
    headers: {
      accept: "application/json",
      ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
      ...(call.body === undefined ? {} : { "content-type": "application/json" }),
      ...(call.idempotencyKey === undefined ? {} : { "idempotency-key": call.idempotencyKey }),
    },
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
    signal: call.signal ? AbortSignal.any([call.signal, timeout]) : timeout,
  });
}

async function toApiError(answer: Response): Promise<ApiError> {
  const body = (await answer.json().catch(() => undefined)) as
    | { error?: { code?: string; message?: string; details?: Record<string, unknown> } }
    | undefined;
  const { code, message, details } = body?.error ?? {};
  return new ApiError({
    status: answer.status,
    code: code ?? "UNKNOWN",
    message: message ?? `The service answered ${answer.status}`,
    details,
    requestId: answer.headers.get("x-request-id") ?? undefined,
  });
}

/** What the service asks for, or twice as long each time, with a random part so that clients do not return together. */
function pauseMs(attempt: number, answer: Response | undefined): number {
  const askedS = Number(answer?.headers.get("retry-after") ?? Number.NaN);
  if (Number.isFinite(askedS)) return Math.min(askedS, RETRY_AFTER_MAX_S) * 1_000;
  return Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
