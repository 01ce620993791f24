/** An indexer is small: what it never calls is not in its memory. */
import { expect, test } from "bun:test";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
/** All that indexer/main.ts imports but itself, which would begin to work. */
const MODULES = [
  "indexer/config.ts",
  "indexer/metrics.ts",
  "indexer/run-network.ts",
  "db/postgres/inspect-database.ts",
];
/** Of jobs and of domain names: several megabytes each. */
const FOREIGN = ["graphile-worker", "cosmiconfig", "tldts"];

test("the indexer does not load the packages of other processes", async () => {
  const script = `
    for (const name of ${JSON.stringify(MODULES)}) await import(${JSON.stringify(ROOT)} + "/" + name);
    console.log(JSON.stringify(Object.keys(require.cache)));`;
  const child = Bun.spawn([process.execPath, "--no-env-file", "-e", script], {
    cwd: ROOT,
    stderr: "inherit",
  });
  const paths: string[] = JSON.parse(await new Response(child.stdout).text());
  expect(await child.exited).toBe(0);
  expect(paths.some((path) => path.endsWith("indexer/run-network.ts"))).toBe(true);
  for (const name of FOREIGN)
    expect(paths.filter((path) => path.includes(`/node_modules/${name}/`))).toEqual([]);
});
