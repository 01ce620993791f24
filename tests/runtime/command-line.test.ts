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

test("error: a missing database gives one message, and no result of the command", () => {
  const env = {
    DATABASE_URL: "postgres://x@127.0.0.1:1/x",
    OTP_PEPPER: "4f3c2b1a09f8e7d6c5b4a3928170615243342516",
  };
  const { exitCode, errors } = run("worker/reseal-main.ts", [], env);
  expect([exitCode, errors]).toEqual([2, "not resealed: connect ECONNREFUSED 127.0.0.1:1\n"]);
  const rpc = { RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:1" };
  const rebuilt = run("indexer/rebuild-main.ts", [], { ...env, ...rpc });
  expect([rebuilt.exitCode, rebuilt.errors]).toEqual([
    2,
    "base-sepolia: not rebuilt: connect ECONNREFUSED 127.0.0.1:1\n",
  ]);
});
