import { expect, test } from "bun:test";
import { runBooksCampaign } from "./books-campaign.ts";

test("behavior: whatever happens to payments, claims, links and blocks, no paid link asks again, and a rebuild makes the same", async () => {
  const { differences, steps, paying } = await runBooksCampaign(250);
  expect(differences).toEqual([]);
  expect(Object.keys(steps).length).toBeGreaterThan(8);
  expect(paying).toBeGreaterThan(0);
}, 120_000);
