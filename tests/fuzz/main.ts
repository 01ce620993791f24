/**
 * `bun run fuzz`: 20,000 seeded malformed requests over every documented route of a fresh API. No 5xx, always the envelope,
 * bounded time. FUZZ_REQUESTS sets how many, TEST_SEED has a run again.
 */
import { seededRandom } from "../support/seeded-random.ts";
import { fuzzFreshApi } from "./fuzz-fresh-api.ts";

const count = Number(process.env.FUZZ_REQUESTS ?? 20_000);
const started = performance.now();
const { faults, ...figures } = await fuzzFreshApi({ count, random: seededRandom("fuzz") });
const seconds = Math.round((performance.now() - started) / 1_000);
for (const fault of faults) console.log(JSON.stringify(fault));
console.log(JSON.stringify({ ...figures, faults: faults.length, seconds }));
console.log(`${figures.requests} requests, ${faults.length} faults`);
process.exit(faults.length > 0 || !figures.isAlive || !figures.isSignedIn ? 1 : 0);
