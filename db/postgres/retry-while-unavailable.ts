/** Retries and timeouts for a Postgres that is unavailable or unresponsive. */
import postgres from "postgres";

const PAUSE_MS = 250;
/** After this long the error is reported to whoever started the process. */
const RETRY_MAX_MS = 60_000;
/** SQLSTATE classes of a server that is starting, stopping or full, and of a broken connection. */
const UNAVAILABLE_CLASSES = ["08", "53", "57"];
/** Socket errors of both drivers; the queue's driver has no code for an ended connection. */
const UNAVAILABLE_TEXT =
  /^CONNECT|^ECONN|^EPIPE|Connection terminated|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH/;

/** Retries `work` for a minute while the server is unreachable or not ready; `onUnavailable` receives each error. Other errors are thrown. */
export async function retryWhileUnavailable<T>(
  work: () => Promise<T>,
  onUnavailable: (error: unknown) => void,
): Promise<T> {
  const deadlineMs = performance.now() + RETRY_MAX_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isUnavailable(error) || performance.now() >= deadlineMs) throw error;
      onUnavailable(error);
    }
    await Bun.sleep(PAUSE_MS);
  }
}

/** Postgres accepted the query and does not respond: a stopped server, or a failover that clients were not notified of. */
export class SilentDatabaseError extends Error {}

/** The result, or SilentDatabaseError after `timeoutMs`; the query keeps running, and its result is discarded. */
export async function withTimeout<T>(timeoutMs: number, answer: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new SilentDatabaseError(`no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([answer, silence]);
  } finally {
    clearTimeout(timer);
  }
}

function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (error instanceof postgres.PostgresError || /^[0-9A-Z]{5}$/.test(code))
    return UNAVAILABLE_CLASSES.includes(code.slice(0, 2));
  return UNAVAILABLE_TEXT.test(code) || UNAVAILABLE_TEXT.test(error.message);
}
