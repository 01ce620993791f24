/**
 * `bun run check`: format, lint, types, dead code and the layers. All of them run, also after a failure. `--write` (`bun run format`)
 * formats instead.
 */
import { join } from "node:path";

type Check = { name: string; command: readonly string[] };

const ROOT = join(import.meta.dir, "..");
const bin = (name: string) => join(ROOT, "node_modules", ".bin", name);

const CHECKS: readonly Check[] = [
  { name: "format and lint", command: [bin("biome"), "check", "--diagnostic-level=warn", "."] },
  { name: "types", command: [process.execPath, "check", "--no-script"] },
  { name: "types of the pages", command: [bin("tsc"), "-p", "web/tsconfig.json"] },
  { name: "dead code", command: [process.execPath, bin("knip"), "--no-progress"] },
  {
    name: "architecture",
    // some read every source file, beside the other checks
    command: [process.execPath, "test", "--timeout=120000", "tests/architecture.test.ts"],
  },
];

const FORMAT: Check = { name: "format", command: [bin("biome"), "check", "--write", "."] };

const wanted = process.argv.includes("--write") ? [FORMAT] : CHECKS;
const results = await Promise.all(wanted.map(runCheck));
process.exitCode = results.every((isGood) => isGood) ? 0 : 1;

async function runCheck({ name, command }: Check): Promise<boolean> {
  const startedAt = performance.now();
  const child = Bun.spawn([...command], { cwd: ROOT, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  const took = `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
  console.log(code === 0 ? `✓ ${name} (${took})` : `✗ ${name} (${took})\n${out}${err}`);
  return code === 0;
}
