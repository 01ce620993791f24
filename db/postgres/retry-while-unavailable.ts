/** How long one waits for a Postgres that is not there yet, or not any more, or says nothing. */
import postgres from "postgres";

const PAUSE_MS = 250;
/** Then whoever started the process had better know. */
const PATIENCE_MS = 60_000;
/** SQLSTATE classes of a server that is starting, stopping or full, and of a broken connection. */
const AWAY_CLASSES = ["08", "53", "57"];
/** How the sockets of both drivers say it; the queue's has no code for a connection that ended. */
const AWAY_TEXT = /^CONNECT|^ECONN|^EPIPE|Connection terminated|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH/;

/** Repeats `work` while the server can't be reached or is not ready, for a minute; `onAway` hears of each try. Other errors are thrown. */
export async function withPatience<T>(work: () => Promise<T>, onAway: (error: unknown) => void): Promise<T> {
  const deadlineMs = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isAway(error) || Date.now() >= deadlineMs) throw error;
      onAway(error);
    }
    await Bun.sleep(PAUSE_MS);
  }
}

/** Postgres took the question and says nothing: a server that was stopped, or a failover that its clients were not told of. */
export class SilentDatabaseError extends Error {}

/** The answer, or SilentDatabaseError after `timeoutMs`; what is asked goes on, and its end is nobody's. */
export async function within<T>(timeoutMs: number, answer: Promise<T>): Promise<T> {
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

function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (error instanceof postgres.PostgresError || /^[0-9A-Z]{5}$/.test(code))
    return AWAY_CLASSES.includes(code.slice(0, 2));
  return AWAY_TEXT.test(code) || AWAY_TEXT.test(error.message);
}
