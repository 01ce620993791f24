/** A real Prometheus with the shipped alert rules. Its clock cannot be hurried, so the rules' waits and windows are shortened. */
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../../local/free-port.ts";

const RULES = join(import.meta.dir, "../../deploy/prometheus/alerts.yaml");
const DASHBOARD = join(import.meta.dir, "../../deploy/grafana/dashboard.json");
/** Instead of minutes: how far back `rate` and `increase` look. */
const WINDOW = "20s";

export type Target = { kind: string; address: string };
export type FiringAlert = { name: string; summary: string };
export type Prometheus = {
  /** What is scraped from now on. */
  scrape(targets: readonly Target[]): void;
  readFiring(): Promise<FiringAlert[]>;
  /** How many series an expression has now. Throws what Prometheus says of a wrong one. */
  countSeries(expression: string): Promise<number>;
  stop(): Promise<void>;
};

export async function startPrometheus(targets: readonly Target[]): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), "game-day-"));
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, `${name}.new`), text);
    renameSync(join(folder, `${name}.new`), join(folder, name));
  };
  const scrape = (given: readonly Target[]) =>
    write(
      "targets.json",
      JSON.stringify(given.map(({ kind, address }) => ({ targets: [address], labels: { process: kind } }))),
    );
  mkdirSync(join(folder, "data"));
  scrape(targets);
  write("alerts.yaml", shorten(readFileSync(RULES, "utf8")));
  write(
    "prometheus.yaml",
    `global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: usdc-payments
    honor_labels: true
    file_sd_configs: [{ files: [targets.json], refresh_interval: 1s }]
`,
  );
  const url = `127.0.0.1:${await findFreePort()}`;
  const child = Bun.spawn(
    [
      "prometheus",
      `--config.file=${join(folder, "prometheus.yaml")}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      `--web.listen-address=${url}`,
      "--log.level=error",
    ],
    { stdout: "ignore", stderr: "inherit" },
  );
  return {
    scrape,
    async readFiring() {
      const response = await fetch(`http://${url}/api/v1/alerts`).catch(() => undefined);
      if (!response?.ok) return [];
      const { data } = (await response.json()) as AlertsAnswer;
      return data.alerts
        .filter(({ state }) => state === "firing")
        .map(({ labels, annotations }) => ({ name: labels.alertname, summary: annotations.summary }));
    },
    async countSeries(expression) {
      const response = await fetch(`http://${url}/api/v1/query?query=${encodeURIComponent(expression)}`);
      const { data, error } = (await response.json()) as QueryAnswer;
      if (!data) throw new Error(`${expression}: ${error}`);
      // a quotient of nothing by nothing draws nothing
      return data.result.filter(({ value }) => value[1] !== "NaN").length;
    },
    async stop() {
      child.kill();
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

type AlertsAnswer = {
  data: { alerts: { state: string; labels: { alertname: string }; annotations: { summary: string } }[] };
};

type QueryAnswer = { data?: { result: { value: [number, string] }[] }; error?: string };

function shorten(rules: string): string {
  return rules.replace(/for: \d+[mh]/g, "for: 1s").replace(/\[\d+[mh]\]/g, `[${WINDOW}]`);
}

/** Expressions of all panels of the shipped dashboard, by title. */
export function readPanels(): { title: string; expression: string }[] {
  const { panels } = JSON.parse(readFileSync(DASHBOARD, "utf8")) as Dashboard;
  return panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expression: expr })));
}

type Dashboard = { panels: { title: string; targets: { expr: string }[] }[] };

/** Names of all alerts of the shipped rules. */
export function readAlertNames(): string[] {
  return [...readFileSync(RULES, "utf8").matchAll(/- alert: (\w+)/g)].map((match) => match[1] ?? "");
}
