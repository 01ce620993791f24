/** For tests of what counts per day or month. */
const DAY_MS = 86_400_000;
/** As long as one test takes on a busy machine. */
const TEST_MS = 60_000;

/** For `beforeEach`: when a day in UTC ends sooner than a test, waits for the next one, so that it does not end in another day. */
export async function beginWithinDay(): Promise<void> {
  await beginBeforeDayEnds(TEST_MS);
}

/** For `beforeAll`, with the time that all of the file's tests take. */
export async function beginBeforeDayEnds(takesMs: number): Promise<void> {
  const leftMs = () => DAY_MS - (Date.now() % DAY_MS);
  while (leftMs() < takesMs) await Bun.sleep(leftMs());
}
