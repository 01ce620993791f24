/** Retries and timeouts for a Postgres that is unavailable or unresponsive. */
import postgres from "postgres";

const PAUSE_MS = 250;
/** After this long the process ends, and its supervisor decides. */
const RETRY_MAX_MS = 60_000;
/** SQLSTATE classes of a server that is starting, stopping or full, and of a broken connection. */
const UNAVAILABLE_CLASSES = ["08", "53", "57"];
/** SQLSTATE classes of a server that refuses this user or has no such database. */
const REFUSED_CLASSES = ["28", "3D"];
/** Of those classes: stopped, crashed, starting, or out of connections. Others are of one statement: cancelled, or without space. */
const UNREACHABLE_STATES = new Set(["57P01", "57P02", "57P03", "53300"]);
/** The server's certificate is of an unknown authority, expired, or of another name. */
const UNTRUSTED_CODE = /^(ERR_TLS_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;
/** PgBouncer's, for a setting of a connection that it does not pass on. */
const REFUSED_SETTING = /unsupported startup parameter/;
const SQL_STATE = /^[0-9A-Z]{5}$/;
/** Socket errors of both drivers; the queue's driver has no code for an ended connection. */
const UNAVAILABLE_TEXT =
  /^CONNECT|^ECONN|^EPIPE|Connection terminated|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH/;

/** One line when it begins to wait, and one when it ends. */
export type WaitReport = {
  log: { warn(line: string): void; info(line: string): void };
  /** Called instead of the second line when Postgres stayed unavailable, and instead of both when it refuses the connection. */
  onGivenUp(line: string): void;
};

/** Runs `work`, again for a minute while the server is unreachable or not ready. Other errors are thrown at once. */
export type DatabaseWait = <T>(work: () => Promise<T>) => Promise<T>;

export function openDatabaseWait(
  databaseUrl: string,
  { log, onGivenUp }: WaitReport,
  maxMs = RETRY_MAX_MS,
): DatabaseWait {
  const name = nameOf(databaseUrl);
  const seconds = (ms: number) => `${Math.round(ms / 1_000)} s`;
  return async (work) => {
    const beganMs = performance.now();
    for (let attempt = 1; ; attempt += 1) {
      const waitedMs = performance.now() - beganMs;
      try {
        const result = await work();
        if (attempt > 1) log.info(`${name} is available after ${seconds(waitedMs)}`);
        return result;
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        const isRefused = isOfClass(error, REFUSED_CLASSES) || isUntrusted(error) || isOfPooler(error);
        if (isRefused) onGivenUp(describeDatabaseFailure(databaseUrl, error));
        if (isOfPooler(error) || !isUnavailable(error)) throw error;
        if (attempt === 1) log.warn(`${name} is unavailable, waiting for up to ${seconds(maxMs)}: ${reason}`);
        if (waitedMs >= maxMs) {
          onGivenUp(`${name} was unavailable for ${seconds(waitedMs)}: ${reason}`);
          throw error;
        }
      }
      await Bun.sleep(PAUSE_MS);
    }
  };
}

/** For commands, which do not wait: names DATABASE_URL when Postgres cannot be used as it is given. Any other error in its own words. */
export function describeDatabaseFailure(databaseUrl: string, error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error);
  const name = nameOf(databaseUrl);
  if (isUntrusted(error))
    return `${name} has a certificate that is not trusted (DATABASE_URL): ${reason}. Use the name it was issued for, and name the file of its authority with sslrootcert=FILE`;
  if (isOfPooler(error))
    return `${name} is a pooler that refuses a setting of our connections (DATABASE_URL): ${reason}. Use the database's direct address, or, in session mode, add it to ignore_startup_parameters (docs/OPERATIONS.md)`;
  if (isOfClass(error, REFUSED_CLASSES)) return `${name} refuses the connection (DATABASE_URL): ${reason}`;
  const isOfStatement = isOfClass(error, ["53", "57"]) && !UNREACHABLE_STATES.has(codeOf(error as Error));
  return isUnavailable(error) && !isOfStatement ? `${name} is unavailable (DATABASE_URL): ${reason}` : reason;
}

function nameOf(databaseUrl: string): string {
  const { host, searchParams } = new URL(databaseUrl);
  return `Postgres at ${host || searchParams.get("host")}`;
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
  const code = codeOf(error);
  if (error instanceof postgres.PostgresError || SQL_STATE.test(code))
    return isOfClass(error, UNAVAILABLE_CLASSES);
  return UNAVAILABLE_TEXT.test(code) || UNAVAILABLE_TEXT.test(error.message);
}

function isUntrusted(error: unknown): boolean {
  return error instanceof Error && UNTRUSTED_CODE.test(codeOf(error));
}

function isOfPooler(error: unknown): boolean {
  return error instanceof Error && REFUSED_SETTING.test(error.message);
}

function isOfClass(error: unknown, classes: readonly string[]): boolean {
  const code = error instanceof Error ? codeOf(error) : "";
  return SQL_STATE.test(code) && classes.includes(code.slice(0, 2));
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}
