/** Commands for operators end with their usage when an argument is not one of theirs: what they do without it was not asked for. */
import { expect, test } from "bun:test";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");

function run(program: string, args: readonly string[], env: Record<string, string> = {}) {
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, "--no-env-file", program, ...args], {
    cwd: ROOT,
    env,
    stderr: "pipe",
  });
  return { exitCode, errors: stderr.toString() };
}

const USAGES: [program: string, args: string[], usage: string][] = [
  ["ops/migrate-main.ts", ["--dry-run"], "bun run migrate [--plan]\n"],
  ["ops/doctor/main.ts", ["--ofline"], "bun run doctor [--offline] [--json]\n"],
  ["ops/restore-main.ts", ["a", "b"], "bun run restore FILE, with an empty database in DATABASE_URL\n"],
  ["ops/install/main.ts", ["--help"], "./deploy/install [--for compose|systemd] [--folder FOLDER]\n"],
  [
    "ops/install/main.ts",
    ["--for", "kubernetes"],
    "./deploy/install [--for compose|systemd] [--folder FOLDER]\n",
  ],
  ["indexer/rebuild-main.ts", ["--help"], "bun run rebuild\n"],
  ["worker/reseal-main.ts", ["--dry-run"], "bun run reseal\n"],
];
for (const [program, args, usage] of USAGES)
  test(`${program} ${args.join(" ")} does nothing and prints the usage`, () => {
    expect(run(program, args)).toEqual({ exitCode: 64, errors: usage });
  });

test("an option that npm took for itself, as in `npm run migrate --plan`, stops the command", () => {
  const { exitCode, errors } = run("ops/migrate-main.ts", [], { npm_config_plan: "true" });
  expect(exitCode).toBe(64);
  expect(errors).toStartWith("npm took --plan as its own option: write -- before the options\n");
});

test("error: a missing database gives one message that names its setting, and no result of the command", () => {
  const env = {
    DATABASE_URL: "postgres://x:f00dbabe@127.0.0.1:1/x",
    RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:1",
    OTP_PEPPER: "4f3c2b1a09f8e7d6c5b4a3928170615243342516",
    BACKUP_KEY: "0a5b7c9d4f3c2b1a09f8e7d6c5b4a39281706152",
  };
  const reason = "Postgres at 127.0.0.1:1 is unavailable (DATABASE_URL): connect ECONNREFUSED 127.0.0.1:1\n";
  const commands: [program: string, args: string[], exitCode: number, prefix: string][] = [
    ["worker/reseal-main.ts", [], 2, "not resealed"],
    ["indexer/rebuild-main.ts", [], 2, "not rebuilt"],
    ["ops/migrate-main.ts", [], 1, "not migrated"],
    ["ops/migrate-main.ts", ["--plan"], 1, "not migrated"],
    ["ops/backup-main.ts", [], 1, "the backup failed"],
  ];
  for (const [program, args, exitCode, prefix] of commands)
    expect([program, run(program, args, env)]).toEqual([
      program,
      { exitCode, errors: `${prefix}: ${reason}` },
    ]);
});

test("error: the MCP server over stdio names a wrong setting in one sentence, without a stack", () => {
  expect(run("mcp/main.ts", [], { SERVICE_URL: "pay.example.com" })).toEqual({
    exitCode: 78,
    errors: "SERVICE_URL must be the service's address, for example https://pay.example.com\n",
  });
});
