import { expect, test } from "bun:test";
import { runHostileCampaign } from "./hostile-campaign.ts";

test("behavior: despite false claims and faults every PAID link was paid by its own payer, or was the only candidate", async () => {
  const report = await runHostileCampaign(16);
  expect(report).toMatchObject({ made: 16, broken: [], unopposed: 0, deaths: [] });
  expect(report.links.PAID).toBeGreaterThan(5);
  expect(Object.keys(report.thefts).length).toBeGreaterThan(1);
  // several of the ten ways of paying occur among sixteen links, and decisive ones end as the payer intended
  expect(Object.keys(report.ways).length).toBeGreaterThan(3);
}, 240_000);
