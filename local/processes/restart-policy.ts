/** Starts a part of the local world again when it dies by itself (the chain, the database), at the same place. */

type Part = { exited: Promise<unknown>; stop: () => Promise<void> };

const PAUSE_FIRST_MS = 200;
const PAUSE_MAX_MS = 10_000;

/** Returns the first part; whatever replaces it must answer at the same addresses. `stop` stops the one that runs then. */
export async function keepAlive<Kept extends Part>(
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
      report(`${name} ended (${String(code)}) and starts again.`);
      // Nothing is left to stop; this gives back its lock.
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
        report(`${name} could not be started again: ${String(error)}`);
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
