/** Stops everything that was started, in reverse order, on Ctrl-C, a signal, or the parent's death. */
import { report } from "./terminal-output.ts";

export type Shutdown = {
  /** Registers a part to be stopped. */
  add: (close: () => Promise<void>) => void;
  /** Throws when the shutdown has begun, to abort a start in progress. */
  check: () => void;
  isStopping: () => boolean;
  stop: (exitCode: number) => Promise<void>;
};

const PARENT_POLL_MS = 500;
/** Time for a start in progress to notice the shutdown. */
const SETTLE_MS = 300;

export function orderlyShutdown(): Shutdown {
  const closers: (() => Promise<void>)[] = [];
  let stopping: Promise<void> | undefined;

  const run = async (exitCode: number) => {
    await closeAll();
    // Parts added by a start in progress are stopped too.
    await Bun.sleep(SETTLE_MS);
    await closeAll();
    process.exit(exitCode);
  };
  const closeAll = async () => {
    for (let close = closers.pop(); close; close = closers.pop()) {
      await close().catch((error) => report(`A part did not stop cleanly: ${String(error)}`));
    }
  };
  const stop = (exitCode: number) => {
    stopping ??= run(exitCode);
    return stopping;
  };
  const stopBecause = (why: string) => {
    if (stopping) return;
    report(`${why}: stopping. The data is kept.`);
    void stop(0);
  };
  process.on("SIGINT", () => stopBecause("Ctrl-C"));
  process.on("SIGTERM", () => stopBecause("SIGTERM"));
  process.on("SIGHUP", () => stopBecause("The terminal was closed"));
  // A closed terminal or pipe must not end us before everything else has stopped.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) stopBecause("The parent process ended");
  }, PARENT_POLL_MS);

  return {
    add: (close) => void closers.push(close),
    check: () => {
      if (stopping) throw new Error("stopping");
    },
    isStopping: () => stopping !== undefined,
    stop,
  };
}
