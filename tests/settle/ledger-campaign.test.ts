import { expect, test } from "bun:test";
import { runBooksCampaign } from "./ledger-campaign.ts";

test("behavior: whatever happens to payments, claims, links and blocks, no paid link asks again, and a rebuild makes the same", async () => {
  const { differences, steps, paying } = await runBooksCampaign(250);
  expect(differences).toEqual([]);
  expect(Object.keys(steps).length).toBeGreaterThan(8);
  expect(paying).toBeGreaterThan(0);
}, 120_000);

test("behavior: nor when six hands do it at once", async () => {
  const { differences, paying } = await runBooksCampaign(300, 6);
  expect(differences).toEqual([]);
  expect(paying).toBeGreaterThan(0);
}, 120_000);
