import { expect, test } from "bun:test";
import { runHostileCampaign } from "./hostile-campaign.ts";

test("behavior: false claims, third parties, second payers and faults: every PAID link was paid by its own payer, or was the only candidate", async () => {
  const report = await runHostileCampaign(40);
  expect(report).toMatchObject({ made: 40, broken: [], unopposed: 0, deaths: [] });
  expect(report.links.PAID).toBeGreaterThan(20);
  expect(Object.keys(report.thefts).length).toBeGreaterThan(3);
  // nearly every way of paying occurs among forty links, and decisive ones end as the payer intended
  expect(Object.keys(report.ways).length).toBeGreaterThan(6);
}, 240_000);
