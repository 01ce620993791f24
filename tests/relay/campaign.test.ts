import { expect, test } from "bun:test";
import { runCampaign } from "./campaign.ts";

test("behavior: processes of every kind are killed at random; what was shown to us is paid once, and the chain agrees", async () => {
  const report = await runCampaign(15);
  expect(report.payments).toBeGreaterThan(30);
  expect(report).toMatchObject({ paid: report.payments, unanswered: 0, wrongAnswers: [], reverted: 0 });
}, 120_000);
