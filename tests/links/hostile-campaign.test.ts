import { expect, test } from "bun:test";
import { runHostileCampaign } from "./hostile-campaign.ts";

test("behavior: thieves, strangers, second payers and faults; every PAID link was paid by somebody who meant it, or was all that could be meant", async () => {
  const report = await runHostileCampaign(40);
  expect(report).toMatchObject({ made: 40, broken: [], unopposed: 0, deaths: [] });
  expect(report.links.PAID).toBeGreaterThan(20);
  expect(Object.keys(report.thefts).length).toBeGreaterThan(3);
  // nearly every way of paying comes up among forty links, and the decisive ones end as the payer meant
  expect(Object.keys(report.ways).length).toBeGreaterThan(6);
}, 240_000);
