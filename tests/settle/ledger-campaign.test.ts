import { expect, test } from "bun:test";
import { runBooksCampaign } from "./ledger-campaign.ts";

test("behavior: random payments, claims, links and reorganisations break no invariant, and a rebuild is identical", async () => {
  const { differences, steps, links } = await runBooksCampaign(90);
  expect(differences).toEqual([]);
  expect(Object.keys(steps).length).toBeGreaterThan(8);
  expect(Object.keys(links).some((kind) => kind.startsWith("PAID"))).toBe(true);
}, 300_000);

test("behavior: the same with six concurrent actors", async () => {
  const { differences, links } = await runBooksCampaign(120, 6);
  expect(differences).toEqual([]);
  expect(Object.keys(links).some((kind) => kind.startsWith("PAID"))).toBe(true);
}, 300_000);
