/** What the operator's page shows, and what of it needs an operator. Thresholds are those of deploy/prometheus/alerts.yaml. */
import type { NetworkId } from "../domain/networks.ts";

export type ProcessKind = "api" | "worker" | "indexer";
export type ProcessStatus = {
  kind: ProcessKind;
  version: string;
  host: string;
  pid: number;
  upS: number;
  silentS: number;
};
export type NetworkStatus = {
  network: NetworkId;
  cursorBlock: number;
  headBlock: number;
  lagS: number | null;
  /** Since a leading indexer last reported. */
  silentS: number;
  lastError: string | null;
  /** Undefined before the first reconciliation. */
  differences: number | undefined;
};
/** `balanceWei`: as a worker last read it. */
export type RelayerStatus = {
  network: NetworkId;
  address: string;
  balanceWei: bigint | undefined;
  nextNonce: number;
  inFlight: number;
  oldestS: number;
};
export type BudgetStatus = {
  network: NetworkId;
  scope: string;
  used: bigint;
  reserved: bigint;
  limit: bigint | undefined;
};
export type WaitingStatus = {
  network: NetworkId;
  what: string;
  state: string;
  count: number;
  oldestS: number;
};
export type TaskStatus = { task: string; ready: number; waiting: number; running: number; failed: number };

export type ServiceStatus = {
  processes: readonly ProcessStatus[];
  networks: readonly NetworkStatus[];
  relayers: readonly RelayerStatus[];
  budgets: readonly BudgetStatus[];
  waiting: readonly WaitingStatus[];
  tasks: readonly TaskStatus[];
  /** Since the newest backup was taken. Undefined before the first: the provider's own are not known here. */
  lastBackupS: number | undefined;
  schema: string;
};

/** `alert`: its entry of the runbook in docs/OPERATIONS.md. */
export type Problem = { alert: string; text: string; isCritical: boolean };

const REPORTS_LATE_S = 45;
const LAG_MAX_S = 30;
const SILENT_MAX_S = 60;
const PAYMENT_WAIT_MAX_S = 60;
const SEND_WAIT_MAX_S = 120;
const BALANCE_LOW_WEI = 5_000_000_000_000_000n;
const BACKUP_MAX_S = 30 * 3_600;
const BUDGET_NEARLY_SPENT_PERCENT = 80n;

export function isLate({ silentS }: Pick<ProcessStatus, "silentS">): boolean {
  return silentS > REPORTS_LATE_S;
}

export function isLow({ balanceWei }: Pick<RelayerStatus, "balanceWei">): boolean {
  return balanceWei !== undefined && balanceWei < BALANCE_LOW_WEI;
}

export function isNearlySpent({ used, limit }: Pick<BudgetStatus, "used" | "limit">): boolean {
  return limit !== undefined && used * 100n > limit * BUDGET_NEARLY_SPENT_PERCENT;
}

export function isBackupOld({ lastBackupS }: Pick<ServiceStatus, "lastBackupS">): boolean {
  return lastBackupS !== undefined && lastBackupS > BACKUP_MAX_S;
}

/** Critical ones first. */
export function findProblems(status: ServiceStatus): Problem[] {
  const problems = [
    ...processProblems(status),
    ...status.networks.flatMap(networkProblems),
    ...status.waiting.flatMap(waitingProblems),
    ...status.relayers
      .filter(isLow)
      .map(({ address, network }) => minor("RelayerLow", `Relayer ${address} on ${network} is low on ETH`)),
    ...status.budgets
      .filter((budget) => budget.scope === "FEES" && isNearlySpent(budget))
      .map(({ network }) =>
        minor("FeeBudgetNearlySpent", `80 % of today's fee budget on ${network} is used`),
      ),
    ...status.tasks
      .filter(({ failed }) => failed > 0)
      .map(({ task, failed }) => minor("JobsFailed", `${failed} job(s) ${task} gave up`)),
    ...(isBackupOld(status)
      ? [
          minor(
            "BackupMissing",
            `The last backup is ${Math.floor((status.lastBackupS ?? 0) / 3_600)} hours old`,
          ),
        ]
      : []),
  ];
  return problems.toSorted((a, b) => Number(b.isCritical) - Number(a.isCritical));
}

function processProblems({ processes }: ServiceStatus): Problem[] {
  const kinds: readonly ProcessKind[] = ["api", "worker", "indexer"];
  return [
    ...kinds
      .filter((kind) => !processes.some((one) => one.kind === kind && !isLate(one)))
      .map((kind) => major("ProcessMissing", `No ${kind} is running`)),
    ...processes
      .filter(isLate)
      .map(({ kind, host, pid, silentS }) =>
        major("ServiceDown", `The ${kind} ${host}/${pid} has not reported for ${Math.round(silentS)} s`),
      ),
  ];
}

function networkProblems({ network, lagS, silentS, differences }: NetworkStatus): Problem[] {
  return [
    ...(silentS > SILENT_MAX_S
      ? [major("NoNodeAnswers", `No indexer of ${network} has reported for ${Math.round(silentS)} s`)]
      : []),
    ...((lagS ?? 0) > LAG_MAX_S
      ? [major("IndexerLags", `The ledger of ${network} is ${lagS} s behind`)]
      : []),
    ...(differences
      ? [
          major(
            "LedgerDiffersFromChain",
            `The ledger of ${network} differs from the chain in ${differences} place(s)`,
          ),
        ]
      : []),
  ];
}

function waitingProblems({ network, what, oldestS }: WaitingStatus): Problem[] {
  const text = `A ${what} on ${network} has been waiting for ${Math.round(oldestS)} s`;
  if (what === "payment" && oldestS > PAYMENT_WAIT_MAX_S) return [major("PaymentsStuck", text)];
  if (what === "send" && oldestS > SEND_WAIT_MAX_S) return [minor("SendsStuck", text)];
  return [];
}

function major(alert: string, text: string): Problem {
  return { alert, text, isCritical: true };
}

function minor(alert: string, text: string): Problem {
  return { alert, text, isCritical: false };
}
