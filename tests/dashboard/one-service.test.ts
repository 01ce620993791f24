/** What disturbs nothing of each other, in one service and one browser: signing first, which counts all signatures. */
import { afterAll, beforeAll, setDefaultTimeout } from "bun:test";
import { isBrowserThere } from "../checkout/browser.ts";
import { testChosenDays } from "./chosen-days.ts";
import { type DashboardWorld, startDashboardWorld } from "./dashboard-world.ts";
import { testMembers } from "./members.ts";
import { testMoneyIn } from "./money-in.ts";
import { testOneTimeSecrets } from "./one-time-secrets.ts";
import { testSigning } from "./signing.ts";

setDefaultTimeout(120_000);

let dashboard: DashboardWorld;
beforeAll(async () => {
  if (isBrowserThere) dashboard = await startDashboardWorld();
}, 120_000);
afterAll(() => dashboard?.stop());

testSigning(() => dashboard);
testMembers(() => dashboard);
testMoneyIn(() => dashboard);
testOneTimeSecrets(() => dashboard);
testChosenDays(() => dashboard);
