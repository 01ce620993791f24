/** Ends what was started, last first, whatever asks for it: Ctrl-C, a signal, or the parent's death. */
import { report } from "./transcript.ts";

export type Shutdown = {
  /** Registers what must be ended. */
  add: (close: () => Promise<void>) => void;
  /** Throws when the end has begun: a start in progress goes no further. */
  check: () => void;
  isStopping: () => boolean;
  stop: (exitCode: number) => Promise<void>;
};

const PARENT_POLL_MS = 500;
/** How long a start in progress may take to notice that it is over. */
const SETTLE_MS = 300;

export function orderlyShutdown(): Shutdown {
  const closers: (() => Promise<void>)[] = [];
  let stopping: Promise<void> | undefined;

  const run = async (exitCode: number) => {
    await closeAll();
    // What a start in progress added meanwhile is ended too.
    await Bun.sleep(SETTLE_MS);
    await closeAll();
    process.exit(exitCode);
  };
  const closeAll = async () => {
    for (let close = closers.pop(); close; close = closers.pop()) {
      await close().catch((error) => report(`A part did not end as it should: ${String(error)}`));
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
  // A closed terminal or pipe must not end us before everything else has ended.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) stopBecause("The starting process is gone");
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
