/** Renders the operator's page as HTML without a script: state first, then what needs an operator, then every figure. It reloads itself. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { escapeHtml } from "../domain/mail-html.ts";
import {
  type BudgetStatus,
  findProblems,
  isLate,
  isLow,
  isNearlySpent,
  type NetworkStatus,
  type Problem,
  type ProcessStatus,
  type RelayerStatus,
  type ServiceStatus,
  type TaskStatus,
  type WaitingStatus,
} from "./status.ts";
import { STYLE } from "./style.ts";

const RELOAD_S = 5;

/** `status` is undefined while the database is unavailable; `servedBy`: the process that answers. */
export function renderStatusPage(status: ServiceStatus | undefined, servedBy: string, now: Date): string {
  const problems: Problem[] = status
    ? findProblems(status)
    : [{ alert: "ServiceDown", text: "The database does not respond", isCritical: true }];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="${RELOAD_S}">
<meta name="robots" content="noindex">
<title>${problems.length === 0 ? "All is well" : `${problems.length} to do`} · Operations</title>
<style>${tokens()}${STYLE}</style>
</head>
<body>
<main>
<header>
<h1>Operations</h1>
<p class="muted">${escapeHtml(servedBy)} · <time datetime="${now.toISOString()}">${now.toISOString().slice(0, 19).replace("T", " ")} UTC</time></p>
</header>
${renderProblems(problems)}
${status ? renderFigures(status) : ""}
</main>
</body>
</html>
`;
}

function renderProblems(problems: readonly Problem[]): string {
  if (problems.length === 0) return `<p class="state ok" role="status">Everything works.</p>`;
  const items = problems.map(
    ({ alert, text, isCritical }) =>
      `<li class="${isCritical ? "bad" : "warn"}"><strong>${escapeHtml(text)}</strong><span>Runbook: ${escapeHtml(alert)}</span></li>`,
  );
  return `<ul class="problems" role="status">${items.join("")}</ul>`;
}

function renderFigures(status: ServiceStatus): string {
  return [
    section(
      "Networks",
      ["Network", "#Read block", "#Head", "#Behind", "#Last report", "#Differences", "Last error"],
      status.networks.map(networkRow),
    ),
    section(
      "Relayers",
      ["Network", "Key", "#Balance", "#Next nonce", "#In flight", "#Oldest"],
      status.relayers.map(relayerRow),
    ),
    section("Waiting", ["Network", "What", "State", "#Count", "#Oldest"], status.waiting.map(waitingRow)),
    section(
      "Budgets today",
      ["Network", "Budget", "#Used", "#Reserved", "#Limit", "Share"],
      status.budgets.map(budgetRow),
    ),
    section("Queue", ["Job", "#Ready", "#Waiting", "#Running", "#Failed"], status.tasks.map(taskRow)),
    section(
      "Processes",
      ["Process", "Version", "Host", "#Up", "#Last report"],
      status.processes.map(processRow),
    ),
    `<p class="muted">Last backup: ${status.lastBackupS === undefined ? "none recorded" : ago(status.lastBackupS)} · Schema <code>${escapeHtml(status.schema)}</code></p>`,
  ].join("\n");
}

type Cell = { html: string; tone?: "bad" | "warn" | undefined };

/** A column that begins with # holds numbers. */
function section(title: string, columns: readonly string[], rows: readonly (readonly Cell[])[]): string {
  if (rows.length === 0) return `<section><h2>${title}</h2><p class="muted">Nothing.</p></section>`;
  const isNumber = columns.map((column) => column.startsWith("#"));
  const heads = columns.map(
    (column, index) =>
      `<th scope="col"${isNumber[index] ? ` class="number"` : ""}>${column.replace("#", "")}</th>`,
  );
  const body = rows.map((cells) => {
    const each = cells.map(({ html, tone }, index) => {
      const classes = [isNumber[index] ? "number" : "", tone ?? ""].filter(Boolean).join(" ");
      const label = columns[index]?.replace("#", "") ?? "";
      return `<td data-label="${label}"${classes ? ` class="${classes}"` : ""}>${html}</td>`;
    });
    return `<tr>${each.join("")}</tr>`;
  });
  return `<section><h2>${title}</h2><table><thead><tr>${heads.join("")}</tr></thead><tbody>${body.join("")}</tbody></table></section>`;
}

const cell = (value: string | number | bigint, tone?: Cell["tone"]): Cell => ({
  html: escapeHtml(String(value)),
  tone,
});
const code = (value: string): Cell => ({
  html: `<code title="${escapeHtml(value)}">${escapeHtml(shorten(value))}</code>`,
});
const when = (isTrue: boolean, tone: "bad" | "warn") => (isTrue ? tone : undefined);

function networkRow(one: NetworkStatus): Cell[] {
  const behind = Math.max(0, one.headBlock - one.cursorBlock);
  return [
    cell(one.network),
    cell(grouped(one.cursorBlock)),
    cell(grouped(one.headBlock)),
    cell(`${grouped(behind)} blocks, ${duration(one.lagS ?? 0)}`, when((one.lagS ?? 0) > 30, "bad")),
    cell(ago(one.silentS), when(one.silentS > 60, "bad")),
    cell(one.differences ?? "not counted yet", when((one.differences ?? 0) > 0, "bad")),
    cell(one.lastError ?? "none", when(one.lastError !== null, "warn")),
  ];
}

function relayerRow(one: RelayerStatus): Cell[] {
  return [
    cell(one.network),
    code(one.address),
    cell(one.balanceWei === undefined ? "unknown" : `${ether(one.balanceWei)} ETH`, when(isLow(one), "warn")),
    cell(one.nextNonce),
    cell(one.inFlight),
    cell(one.inFlight === 0 ? "none" : duration(one.oldestS), when(one.oldestS > 60, "warn")),
  ];
}

function waitingRow(one: WaitingStatus): Cell[] {
  return [
    cell(one.network),
    cell(one.what),
    cell(one.state),
    cell(one.count),
    cell(duration(one.oldestS), when(one.oldestS > 60, "bad")),
  ];
}

const SCOPES: Readonly<Record<string, string>> = { FEES: "Fees of the network" };

function budgetRow(one: BudgetStatus): Cell[] {
  const amount = (value: bigint) => (one.scope === "FEES" ? `${ether(value)} ETH` : `${grouped(value)} gas`);
  const percent = one.limit ? Number((one.used * 100n) / one.limit) : 0;
  const bar = `<meter min="0" max="100" high="80" optimum="0" value="${Math.min(100, percent)}">${percent} %</meter> ${percent} %`;
  return [
    cell(one.network),
    cell(SCOPES[one.scope] ?? one.scope.toLowerCase().replaceAll("_", " ")),
    cell(amount(one.used)),
    cell(amount(one.reserved)),
    cell(one.limit === undefined ? "none" : amount(one.limit)),
    one.limit ? { html: bar, tone: when(isNearlySpent(one), "warn") } : cell("unlimited"),
  ];
}

function taskRow({ task, ready, waiting, running, failed }: TaskStatus): Cell[] {
  return [cell(task), cell(ready), cell(waiting), cell(running), cell(failed, when(failed > 0, "warn"))];
}

function processRow(one: ProcessStatus): Cell[] {
  return [
    cell(one.kind),
    cell(one.version),
    cell(`${one.host}/${one.pid}`),
    cell(duration(one.upS)),
    cell(ago(one.silentS), when(isLate(one), "bad")),
  ];
}

function shorten(value: string): string {
  return value.length > 14 ? `${value.slice(0, 8)}…${value.slice(-4)}` : value;
}

function grouped(value: number | bigint): string {
  return value.toLocaleString("en-US");
}

function ether(wei: bigint): string {
  const micro = wei / 1_000_000_000_000n;
  return `${grouped(micro / 1_000_000n)}.${(micro % 1_000_000n).toString().padStart(6, "0")}`;
}

function ago(seconds: number): string {
  return `${duration(seconds)} ago`;
}

function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7_200) return `${Math.floor(whole / 60)} min`;
  if (whole < 172_800) return `${Math.floor(whole / 3_600)} h`;
  return `${Math.floor(whole / 86_400)} d`;
}

let tokensText: string | undefined;

/** The colours of every page of the service, light and dark. */
function tokens(): string {
  tokensText ??= readFileSync(join(import.meta.dir, "../../web/design/tokens.css"), "utf8");
  return tokensText;
}
