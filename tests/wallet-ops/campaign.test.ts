import { expect, test } from "bun:test";
import { runCampaign } from "./campaign.ts";

test("while processes, Postgres and the node fail, each send and refund moves its amount exactly once or not at all", async () => {
  const report = await runCampaign(16, ["api", "api-2", "worker", "indexer"]);
  expect(report.operations).toBeGreaterThanOrEqual(16);
  expect(report.wrong).toEqual([]);
  expect(report.outcomes.CONFIRMED).toBeGreaterThan(8);
  expect(report.blows).toMatchObject({ node: expect.any(Number), database: expect.any(Number) });
}, 240_000);
