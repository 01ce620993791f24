import { expect, test } from "bun:test";
import { resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

test("an error of the database is logged with its SQLSTATE, and without the values of its rows", async () => {
  const source = `
    import postgres from "postgres";
    import { openLog } from "${ROOT}/core/runtime/log.ts";
    const err = new postgres.PostgresError({ code: "40P01", message: "deadlock detected", detail: "Key (id)=(1)" });
    openLog("test", "info").error({ err: new Error("it failed", { cause: err }) }, "failed");`;
  const child = Bun.spawn([process.execPath, "-e", source], { cwd: ROOT, stdout: "pipe", stderr: "inherit" });
  const line = await new Response(child.stdout).text();
  const { cause } = JSON.parse(line).err;
  expect(cause).toMatchObject({ name: "PostgresError", sqlState: "40P01", message: "deadlock detected" });
  expect(line).not.toContain("(1)");
});
