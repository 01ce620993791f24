import { expect, test } from "bun:test";
import { runCampaign } from "./campaign.ts";

test("while processes of every kind are killed, each send moves its amount exactly once", async () => {
  const report = await runCampaign(15);
  expect(report.confirmed).toBe(report.sends);
  expect(Object.keys(report.kills).length).toBeGreaterThan(0);
}, 240_000);
