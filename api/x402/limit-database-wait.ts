/** Bounds how long a request waits for a silent database, as long as no payment of it can have been stored. */
import { SilentDatabaseError } from "../../db/postgres/retry-while-unavailable.ts";

/** Before a payment is accepted no caller waits longer for a database that is connected and does not answer. */
const SILENCE_MS = 10_000;

/**
 * Throws SilentDatabaseError after `SILENCE_MS`, unless `work` has called `onAccepting` by then. After that error `onAccepting` throws,
 * so that nothing is accepted for a caller who was answered that nothing was stored.
 */
export async function limitDatabaseWait<T>(work: (onAccepting: () => void) => Promise<T>): Promise<T> {
  const silence = Promise.withResolvers<never>();
  let isAnswered = false;
  const timer = setTimeout(() => {
    isAnswered = true;
    silence.reject(new SilentDatabaseError(`no answer after ${SILENCE_MS} ms`));
  }, SILENCE_MS);
  const onAccepting = () => {
    if (isAnswered) throw new SilentDatabaseError("the caller was told that nothing was stored");
    clearTimeout(timer);
  };
  const working = work(onAccepting).finally(() => clearTimeout(timer));
  return Promise.race([working, silence.promise]);
}
