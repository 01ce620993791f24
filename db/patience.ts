/** For processes that start while Postgres is not there yet, or not any more: they wait for it as they would later. */
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

function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (error instanceof postgres.PostgresError || /^[0-9A-Z]{5}$/.test(code))
    return AWAY_CLASSES.includes(code.slice(0, 2));
  return AWAY_TEXT.test(code) || AWAY_TEXT.test(error.message);
}
