/** Waits until an API reports its database, chains and relayers as ready. */

const TIMEOUT_MS = 60_000;
const POLL_MS = 50;
const ANSWER_TIMEOUT_MS = 5_000;

/** `check` runs at each poll and may throw to give up. Throws the last response at the deadline. */
export async function waitUntilReady(
  apiUrl: string,
  { check = () => {}, timeoutMs = TIMEOUT_MS }: { check?: () => void; timeoutMs?: number } = {},
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  let last = "no answer";
  while (Date.now() < deadline) {
    check();
    try {
      const answer = await fetch(`${apiUrl}/health/ready`, {
        signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
      });
      if (answer.ok) return;
      last = `${answer.status} ${await answer.text()}`;
    } catch (error) {
      last = String(error);
    }
    await Bun.sleep(POLL_MS);
  }
  throw new Error(`${apiUrl}/health/ready is not ready after ${timeoutMs / 1000} s: ${last}`);
}
