/** A short run of the fuzzer; `bun run fuzz` is the long one. */
import { expect, test } from "bun:test";
import { seededRandom } from "../support/seeded-random.ts";
import { fuzzFreshApi } from "./fuzz-fresh-api.ts";

test("700 malformed requests: no 5xx, always the envelope, and the API stays up", async () => {
  const report = await fuzzFreshApi({ count: 700, random: seededRandom("fuzz") });
  expect(report.faults).toEqual([]);
  expect(report).toMatchObject({ requests: 700, isAlive: true, isSignedIn: true });
}, 120_000);
