/**
 * `doctor`: what is misconfigured, with the fix. From a shell on any machine it checks the service from a caller's view: address, reachability,
 * health, clock, API key. Inside the project, with a configuration in the environment (DATABASE_URL) and no other service named, it then runs
 * the operator's doctor, which examines every process's configuration.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { examineService, type Finding } from "./examine-service.ts";
import type { Command } from "./settings.ts";

const MARKS = { fault: "✗", advice: "!", good: "✓" } as const;

export const doctor: Command = async (given, settings, output) => {
  const findings = await examineService(settings);
  const isFaulty = findings.some(({ level }) => level === "fault");
  output.value({ findings }, () => findings.map(lineOf).join("\n"));
  const { PROJECT_FOLDER: project, SERVICE_URL, DATABASE_URL, DATABASE_URL_FILE } = process.env;
  const isOperator = (DATABASE_URL ?? DATABASE_URL_FILE) !== undefined;
  const isElsewhere = (given.text("url") ?? SERVICE_URL) !== undefined;
  const isProject = project !== undefined && existsSync(join(project, "ops/doctor/main.ts"));
  if (output.isJson || !isProject || !isOperator || isElsewhere) return isFaulty ? 1 : 0;
  output.line("\nThe configuration of this machine's processes:");
  const code = await runOperatorsDoctor(project);
  return isFaulty || code !== 0 ? 1 : 0;
};

function lineOf({ level, subject, text, fix }: Finding): string {
  const line = `${MARKS[level]} ${subject.padEnd(9)} ${text}`;
  return fix === undefined ? line : `${line}\n  ${" ".repeat(9)} → ${fix}`;
}

function runOperatorsDoctor(project: string): Promise<number> {
  return new Promise((resolve) => {
    const args = [join(project, "bootstrap.mjs"), "ops/doctor/main.ts"];
    const child = spawn("node", args, { stdio: "inherit", cwd: project });
    child.on("error", () => resolve(1));
    child.on("exit", (code) => resolve(code ?? 1));
  });
}
