/** A process whose port is taken says which variables name it, and exits with 1: after the other program has ended, a restart succeeds. */
import { expect, test } from "bun:test";
import { join } from "node:path";

test("error: a port in use is named with its variables, and ends the process", async () => {
  const taken = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const { port } = taken;
  const child = Bun.spawn([process.execPath, "--no-env-file", "indexer/main.ts"], {
    cwd: join(import.meta.dir, "../.."),
    env: {
      ...{ DATABASE_URL: "postgres://x@127.0.0.1:1/x", RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:1" },
      ...{ METRICS_PORT: String(port), LOG_LEVEL: "fatal" },
    },
    stdout: "pipe",
  });
  const output = await new Response(child.stdout).text();
  await taken.stop(true);
  expect(await child.exited).toBe(1);
  expect(output).not.toContain("stack");
  expect(JSON.parse(output)).toMatchObject({
    level: "fatal",
    msg: expect.stringContaining(
      `cannot listen at 127.0.0.1:${port} (METRICS_HOST, METRICS_PORT): Failed to start server`,
    ),
  });
}, 120_000);
