import { expect, test } from "bun:test";
import { runBooksCampaign } from "./ledger-campaign.ts";

test("behavior: after random payments, claims, links and reorganisations no paid link asks again, and a rebuild gives the same ledger", async () => {
  const { differences, steps, paying } = await runBooksCampaign(100);
  expect(differences).toEqual([]);
  expect(Object.keys(steps).length).toBeGreaterThan(8);
  expect(paying).toBeGreaterThan(0);
}, 120_000);

test("behavior: the same with six concurrent actors", async () => {
  const { differences, paying } = await runBooksCampaign(120, 6);
  expect(differences).toEqual([]);
  expect(paying).toBeGreaterThan(0);
}, 120_000);
