import { expect, test } from "bun:test";
import { roundsOf } from "../support/depth.ts";
import { runAllFaultsCampaign } from "./all-faults-campaign.ts";
import { runLyingNodeCampaign } from "./lying-node-campaign.ts";

const PAYMENTS = roundsOf({ few: 24, many: 40 });
const TAKEN = ["200", "202", "409"];

test("behavior: a node lies about sent transactions; no payment is lost or wrongly FAILED", async () => {
  const report = await runLyingNodeCampaign(PAYMENTS);
  expect(report).toMatchObject({ payments: PAYMENTS, paid: PAYMENTS, failed: 0, unanswered: 0, wrong: [] });
  // 409 for one that was paid between two answers to its payer, on a busy machine
  expect(Object.keys(report.statuses).filter((status) => !TAKEN.includes(status))).toEqual([]);
}, 120_000);

test("behavior: kills, a faulty node and a crashing Postgres together; each accepted payment is paid once", async () => {
  const report = await runAllFaultsCampaign(8);
  expect(report.payments).toBeGreaterThan(0);
  expect(report).toMatchObject({ paid: report.payments, unanswered: 0, wrong: [], deaths: [] });
}, 240_000);
