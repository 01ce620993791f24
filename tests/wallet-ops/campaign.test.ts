import { expect, test } from "bun:test";
import { roundsOf } from "../support/depth.ts";
import { FIRST_BLOWS, runCampaign } from "./campaign.ts";

const PROCESSES = ["api", "api-2", "worker", "indexer"] as const;
/** Most of the CPU time is that of processes that start again. */
const BLOWS_MAX = roundsOf({ few: FIRST_BLOWS.length, many: Number.POSITIVE_INFINITY });
const OPERATIONS = roundsOf({ few: 12, many: 16 });

test("while processes, Postgres and the node fail, each send and refund moves its amount exactly once or not at all", async () => {
  const report = await runCampaign(OPERATIONS, PROCESSES, BLOWS_MAX);
  expect(report.operations).toBeGreaterThanOrEqual(OPERATIONS);
  expect(report.wrong).toEqual([]);
  expect(report.outcomes.CONFIRMED).toBeGreaterThan(OPERATIONS / 2);
  expect(Object.keys(report.blows).sort()).toEqual(["node", "database", ...PROCESSES].sort());
}, 240_000);
