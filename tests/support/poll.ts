/** Pauses between two polls: short at first, then longer, since each poll costs the processes under test what a request does. */
const GROWTH = 1.3;
const LONGEST_MS = 120;

/** `await pause()` between two polls of what is waited for. */
export function openPauses(firstMs = 25): () => Promise<void> {
  let nextMs = firstMs;
  return async () => {
    const ms = nextMs;
    nextMs = Math.min(ms * GROWTH, LONGEST_MS);
    await Bun.sleep(ms);
  };
}
