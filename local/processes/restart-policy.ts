/** Restarts a part of the local environment that dies (the chain, the database), at the same address. */

type Part = { exited: Promise<unknown>; stop: () => Promise<void> };

const PAUSE_FIRST_MS = 200;
const PAUSE_MAX_MS = 10_000;

/** Returns the first instance; its replacements must use the same addresses. `stop` stops the current one. */
export async function restartOnExit<Kept extends Part>(
  name: string,
  start: () => Promise<Kept>,
  report: (sentence: string) => void,
): Promise<{ part: Kept; stop: () => Promise<void> }> {
  const first = await start();
  let current: Kept = first;
  let stopping = false;
  let pauseMs = PAUSE_FIRST_MS;

  const watch = async () => {
    while (!stopping) {
      const code = await current.exited;
      if (stopping) return;
      report(`${name} ended (${String(code)}); restarting.`);
      // Nothing is left to stop; this releases its lock.
      await current.stop();
      await restart();
    }
  };
  const restart = async () => {
    while (!stopping) {
      try {
        current = await start();
        pauseMs = PAUSE_FIRST_MS;
        return;
      } catch (error) {
        report(`${name} could not be restarted: ${String(error)}`);
        await Bun.sleep(pauseMs);
        pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
      }
    }
  };
  const watching = watch();
  const stop = async () => {
    stopping = true;
    await current.stop();
    await watching;
  };
  return { part: first, stop };
}
