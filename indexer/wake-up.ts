/** The wait between two polls of the chain: a timer that always runs, and a block announcement that ends it early. */

export type WakeUp = {
  wake: () => void;
  /** Resolves at the next `wake`, at one that came since the last wait, or after `ms`. */
  wait: (ms: number) => Promise<void>;
};

export function openWakeUp(signal: AbortSignal): WakeUp {
  let wasWoken = false;
  let end: (() => void) | undefined;
  const wake = () => {
    wasWoken = true;
    end?.();
  };
  signal.addEventListener("abort", wake, { once: true });
  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        end = undefined;
        wasWoken = false;
        resolve();
      };
      const timer = setTimeout(finish, ms);
      end = finish;
      if (wasWoken || signal.aborted) finish();
    });
  return { wake, wait };
}
