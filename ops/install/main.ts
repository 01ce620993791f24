/**
 * `./deploy/install [--for compose|systemd] [--folder FOLDER]`: asks five questions, writes settings and secrets, checks them and says
 * what to do next. Started again it keeps every secret it has made.
 */
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { endWithUsage, readArgumentsOrExit } from "../../core/runtime/command-line.ts";
import { examine } from "../doctor/examine.ts";
import { presentFindings } from "../doctor/finding.ts";
import { askAll } from "./questions.ts";
import { type Layout, writeFiles } from "./write-files.ts";

const ROOT = join(import.meta.dir, "../..");
const FOLDERS = { compose: join(ROOT, "deploy/compose"), systemd: "/etc/usdc-payment-service" } as const;

const USAGE = "./deploy/install [--for compose|systemd] [--folder FOLDER]";
const text = { type: "string" } as const;
const { values } = readArgumentsOrExit(USAGE, { for: text, folder: text });
const kind = readKind(values.for ?? "compose");
const folder = resolve(values.folder ?? FOLDERS[kind]);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const answers = await askAll(
  async (question) => {
    process.stdout.write(question);
    const { value, done } = await lines.next();
    return done ? undefined : value;
  },
  (text) => console.log(`   ${text}`),
).catch((error: Error) => {
  console.error(`\n${error.message}`);
  process.exit(1);
});
const { env, relayer, kept } = place();
console.log(
  `\nWritten to ${folder}: service.env, and secrets/ (back it up: without it nothing can be restored)`,
);
if (kept.length > 0) console.log(`Kept unchanged: ${kept.join(", ")}`);

console.log("\nChecking …\n");
// not there yet: the database, and the pages are built with the image
const findings = (await examine(env)).filter(({ subject }) => subject !== "database" && subject !== "pages");
console.log(presentFindings(findings));
console.log(`\n${nextSteps({ folder, kind })}`);
process.exit(0);

function readKind(given: string): Layout["kind"] {
  return given === "compose" || given === "systemd" ? given : endWithUsage(USAGE);
}

function place() {
  try {
    return writeFiles(answers, { folder, kind });
  } catch (error) {
    console.error(`\n${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  }
}

function nextSteps({ folder: place, kind: how }: Layout): string {
  const first = `1. Send some ETH to the relayer ${relayer} on ${answers.networks.join(" and ")}; it pays the gas (0.01 lasts for thousands of payments).
2. Point ${answers.domain} to this server, with ports 80 and 443 open.`;
  if (how === "systemd")
    return `${first}
3. Follow deploy/systemd/README.md: database and user, units, Caddy.
4. deploy/systemd/run doctor        (must find no fault)`;
  const compose = `docker compose -f ${join(FOLDERS.compose, "compose.yaml")}`;
  const isBeside = place === FOLDERS.compose;
  const moved = isBeside ? "" : `Move .env, service.env, secrets/ and backups/ to ${FOLDERS.compose}. `;
  return `${first}
3. ${moved}${compose} up -d --build
4. ${compose} run --rm doctor        (must find no fault)
5. Open https://${answers.domain}, and copy ${join(FOLDERS.compose, "backups")} to another machine every day.
   What each alarm means, restores and upgrades: docs/OPERATIONS.md`;
}
