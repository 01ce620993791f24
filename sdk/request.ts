/** One request with its retries. Only what is safe to repeat is repeated: reads, requests with an Idempotency-Key, and refusals by a rate limit. */
import { ApiError, ConnectionError } from "./errors.ts";
import type { ApiError as ErrorEnvelope } from "./wire.ts";

export type ClientOptions = {
  /** Origin of the service, for example https://pay.example.com. */
  baseUrl: string;
  /** `sk_…`; not needed for public routes. Never give one to a browser. */
  apiKey?: string | undefined;
  fetch?: typeof fetch | undefined;
  /** Attempts after the first; default 4. */
  retries?: number | undefined;
  timeoutMs?: number | undefined;
};

export type Call = {
  path: string;
  /** Default GET. */
  method?: "POST";
  query?: object | undefined;
  body?: unknown;
  /** For routes that declare the header. The same key with the same body is answered as the first time. */
  idempotencyKey?: string | undefined;
  /** Media type; default JSON. */
  accept?: string | undefined;
  headers?: Readonly<Record<string, string | undefined>>;
  signal?: AbortSignal | undefined;
};

const RETRIES = 4;
export const TIMEOUT_MS = 30_000;
const PAUSE_MS = 250;
const PAUSE_MAX_MS = 8_000;
export const RETRY_AFTER_MAX_S = 60;

/** The answer, when it is a success; throws ApiError or ConnectionError. */
export async function request(options: ClientOptions, call: Call): Promise<Response> {
  const isRepeatable = !call.method || !!call.idempotencyKey;
  for (let failures = 0; ; failures += 1) {
    try {
      const timeout = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
      return await send(options, { ...call, signal: either(call.signal, timeout) });
    } catch (error) {
      call.signal?.throwIfAborted();
      const { status = 0, retryAfterS = backoffMs(failures, PAUSE_MS) / 1_000 } = error as Partial<ApiError>;
      const isFailure = error instanceof ConnectionError || status >= 500;
      const mayPass = status === 429 || (isRepeatable && isFailure);
      // a longer rate limit is reported to the caller
      if (!mayPass || failures >= (options.retries ?? RETRIES) || retryAfterS > RETRY_AFTER_MAX_S)
        throw error;
      await pause(retryAfterS * 1_000, call.signal);
    }
  }
}

/** One attempt. Throws ApiError for a refusal, ConnectionError when there was no answer. */
export async function send(
  options: ClientOptions,
  { path, method, query = {}, body, idempotencyKey, accept = "application/json", headers, signal }: Call,
): Promise<Response> {
  // also a service that is served below a path of its origin
  const url = new URL(options.baseUrl.replace(/\/+$/, "") + path);
  for (const [name, value] of given(query))
    for (const one of [value].flat()) url.searchParams.append(name, String(one));
  const answer = await (options.fetch ?? fetch)(url, {
    method,
    headers: given({
      accept,
      authorization: options.apiKey && `Bearer ${options.apiKey}`,
      "content-type": body && "application/json",
      "idempotency-key": idempotencyKey,
      ...headers,
    }),
    body: body && JSON.stringify(body),
    signal,
    // followed, a 301 of a POST would become a GET, which is another request
    redirect: method ? "manual" : "follow",
    // what is undefined is left to fetch
  } as RequestInit).catch((cause: unknown) => {
    throw new ConnectionError(`${path} was not answered`, { cause });
  });
  if (answer.ok) {
    if (answer.headers.get("content-type")?.startsWith("text/html"))
      throw new ConnectionError(`${path} was answered by something other than the service`);
    return answer;
  }
  const target = answer.headers.get("location");
  const refusal = (await answer.json().catch(ignore)) as Partial<ErrorEnvelope> | null | undefined;
  const {
    code = "UNKNOWN",
    message = target ? `Redirected to ${target}` : `The service answered ${answer.status}`,
    details,
  } = refusal?.error ?? ({} as Partial<ErrorEnvelope["error"]>);
  throw new ApiError({
    status: answer.status,
    code,
    message,
    details,
    requestId: answer.headers.get("x-request-id") ?? undefined,
    retryAfterS: retryAfterOf(answer),
  });
}

/** Seconds; 0 and a date count as absent. */
export function retryAfterOf(answer: Response | undefined): number | undefined {
  return Number(answer?.headers.get("retry-after")) || undefined;
}

/** For failures that say nothing more than an absent value. */
export const ignore = () => undefined;

/** Entries that have a value. */
function given(values: object): [string, unknown][] {
  return Object.entries(values).filter(([, value]) => value !== undefined);
}

/** Doubles after each failure, with jitter so that clients do not retry together. */
export function backoffMs(failures: number, firstMs: number): number {
  return Math.min(PAUSE_MAX_MS, firstMs * 2 ** failures) * (0.5 + Math.random() / 2);
}

export function either(signal: AbortSignal | undefined, other: AbortSignal): AbortSignal {
  return signal ? AbortSignal.any([signal, other]) : other;
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
