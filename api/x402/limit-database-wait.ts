/** Bounds how long a request waits for an unresponsive database while its payment cannot have been stored yet. */
import { SilentDatabaseError } from "../../db/postgres/retry-while-unavailable.ts";

/** Maximum wait, before acceptance, for a database that is connected but does not respond. */
const SILENCE_MS = 10_000;

/**
 * Throws SilentDatabaseError after `SILENCE_MS`, unless `work` has called `onAccepting` by then. After that error `onAccepting` throws,
 * so that no payment is accepted after the response has reported that nothing was stored.
 */
export async function limitDatabaseWait<T>(work: (onAccepting: () => void) => Promise<T>): Promise<T> {
  const silence = Promise.withResolvers<never>();
  let isAnswered = false;
  const timer = setTimeout(() => {
    isAnswered = true;
    silence.reject(new SilentDatabaseError(`no answer after ${SILENCE_MS} ms`));
  }, SILENCE_MS);
  const onAccepting = () => {
    if (isAnswered)
      throw new SilentDatabaseError("the response has already reported that nothing was stored");
    clearTimeout(timer);
  };
  const working = work(onAccepting).finally(() => clearTimeout(timer));
  return Promise.race([working, silence.promise]);
}
