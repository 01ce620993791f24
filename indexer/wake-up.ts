/** The wait between two looks at the chain: a timer that always runs, and a block announcement that ends it early. */

export type Bell = {
  ring: () => void;
  /** Resolves at the next ring, at one that came since the last wait, or after `ms`. */
  wait: (ms: number) => Promise<void>;
};

export function openBell(signal: AbortSignal): Bell {
  let hasRung = false;
  let wake: (() => void) | undefined;
  const ring = () => {
    hasRung = true;
    wake?.();
  };
  signal.addEventListener("abort", ring, { once: true });
  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        wake = undefined;
        hasRung = false;
        resolve();
      };
      const timer = setTimeout(end, ms);
      wake = end;
      if (hasRung || signal.aborted) end();
    });
  return { ring, wait };
}
