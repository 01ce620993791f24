/** The operator's page: which figures count as a problem, at which value, and that the page escapes what it shows. */
import { describe, expect, test } from "bun:test";
import { renderStatusPage } from "../../core/status-page/page.ts";
import { findProblems, type ServiceStatus } from "../../core/status-page/status.ts";

const NETWORK = "base-sepolia" as const;
const process = { version: "0.1.0", host: "one", pid: 7, upS: 90, silentS: 3 };
const network = {
  network: NETWORK,
  cursorBlock: 12_345_678,
  headBlock: 12_345_678,
  lagS: 0,
  silentS: 2,
} as const;
const relayer = {
  ...{ network: NETWORK, address: "0x00000000000000000000000000000000000000aa" },
  ...{ balanceWei: 5_000_000_000_000_000n, nextNonce: 41, inFlight: 0, oldestS: 0 },
} as const;
const HEALTHY: ServiceStatus = {
  processes: (["api", "indexer", "worker"] as const).map((kind) => ({ ...process, kind })),
  networks: [{ ...network, lastError: null, differences: 0 }],
  relayers: [relayer],
  budgets: [{ network: NETWORK, scope: "FEES", used: 80n, reserved: 0n, limit: 100n }],
  waiting: [{ network: NETWORK, what: "payment", state: "QUEUED", count: 3, oldestS: 60 }],
  tasks: [{ task: "relay_payments", ready: 1, waiting: 0, running: 1, failed: 0 }],
  lastBackupS: 30 * 3_600,
  schema: "0155_baseline",
};
const NOW = new Date("2026-11-22T12:00:00Z");
const alertsOf = (status: ServiceStatus) => findProblems(status).map(({ alert }) => alert);

describe("problems of the operator's page", () => {
  test("a service exactly at every threshold has none", () => {
    expect(findProblems(HEALTHY)).toEqual([]);
    const page = renderStatusPage(HEALTHY, "api 0.1.0", NOW);
    expect(page).toContain("Everything works.");
    expect(page).toContain("<title>All is well · Operations</title>");
    expect(page).toContain("12,345,678");
    expect(page).toContain("0.005000 ETH");
    expect(page).toContain("Last backup: 30 h ago");
  });

  test("a service without a recorded backup has none, and reports that", () => {
    const unknown = { ...HEALTHY, lastBackupS: undefined };
    expect(findProblems(unknown)).toEqual([]);
    expect(renderStatusPage(unknown, "api 0.1.0", NOW)).toContain("Last backup: none recorded");
  });

  const cases: [string, string, Partial<ServiceStatus>][] = [
    ["a backup that is older than 30 hours", "BackupMissing", { lastBackupS: 30 * 3_600 + 1 }],
    ["a kind without a process", "ProcessMissing", { processes: HEALTHY.processes.slice(1) }],
    [
      "a further process that has not reported for 46 s",
      "ServiceDown",
      { processes: [...HEALTHY.processes, { ...process, kind: "worker", silentS: 46 }] },
    ],
    [
      "no report of an indexer for 61 s",
      "NoNodeAnswers",
      { networks: [{ ...network, silentS: 61, lastError: null, differences: 0 }] },
    ],
    [
      "a ledger 31 s behind",
      "IndexerLags",
      { networks: [{ ...network, lagS: 31, lastError: null, differences: 0 }] },
    ],
    [
      "a difference between ledger and chain",
      "LedgerDiffersFromChain",
      { networks: [{ ...network, lastError: null, differences: 1 }] },
    ],
    [
      "a payment that has waited for 61 s",
      "PaymentsStuck",
      { waiting: [{ network: NETWORK, what: "payment", state: "SIGNED", count: 1, oldestS: 61 }] },
    ],
    [
      "a send that has waited for 121 s",
      "SendsStuck",
      { waiting: [{ network: NETWORK, what: "send", state: "QUEUED", count: 1, oldestS: 121 }] },
    ],
    [
      "a relayer below 0.005 ETH",
      "RelayerLow",
      { relayers: [{ ...relayer, balanceWei: 4_999_999_999_999_999n }] },
    ],
    [
      "a fee budget of which 81 % are spent",
      "FeeBudgetNearlySpent",
      { budgets: [{ network: NETWORK, scope: "FEES", used: 81n, reserved: 0n, limit: 100n }] },
    ],
    [
      "a job that gave up",
      "JobsFailed",
      { tasks: [{ task: "deliver_webhooks", ready: 0, waiting: 0, running: 0, failed: 1 }] },
    ],
  ];
  for (const [what, alert, change] of cases) {
    test(`${what} is ${alert}`, () => expect(alertsOf({ ...HEALTHY, ...change })).toEqual([alert]));
  }

  test("critical problems come first", () => {
    const status = {
      ...HEALTHY,
      relayers: [{ ...relayer, balanceWei: 0n }],
      networks: [{ ...network, lagS: 31, lastError: null, differences: 0 }],
    };
    expect(alertsOf(status)).toEqual(["IndexerLags", "RelayerLow"]);
  });
});

test("an error text of a node cannot become markup", () => {
  const networks = [{ ...network, lastError: `<script>alert("1")</script>`, differences: undefined }];
  const page = renderStatusPage({ ...HEALTHY, networks }, "api 0.1.0", NOW);
  expect(page).not.toContain("<script");
  expect(page).toContain("not counted yet");
});

test("an unavailable database is the only problem on the page", () => {
  const page = renderStatusPage(undefined, "worker 0.1.0", NOW);
  expect(page).toContain("The database does not respond");
  expect(page).not.toContain("<table");
});
