import { expect, test } from "bun:test";
import { runStandbyCampaign } from "./standby-campaign.ts";

test("behavior: a standby at least 2.5 s behind is promoted under load; every link is PAID by its intended payer", async () => {
  const report = await runStandbyCampaign(10);
  expect(report.forgotten).toBeGreaterThan(0);
  expect(report).toMatchObject({ payments: 30, unanswered: 0, wrong: [], faults: [] });
  expect(report.healedMs).toBeGreaterThan(0);
}, 240_000);
