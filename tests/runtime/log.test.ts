import { expect, test } from "bun:test";
import { resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/** The fields of what a script logs, which has `log`. */
async function logged(script: string): Promise<{ line: string; fields: Record<string, unknown> }> {
  const source = `
    import { openLog } from "${ROOT}/core/runtime/log.ts";
    const log = openLog("test", "info");
    ${script}`;
  const child = Bun.spawn([process.execPath, "-e", source], { cwd: ROOT, stdout: "pipe", stderr: "inherit" });
  const line = await new Response(child.stdout).text();
  return { line, fields: JSON.parse(line) };
}

test("what was thrown and is no error is logged as its text, also as a cause", async () => {
  const { fields } = await logged(`log.error({ err: "the text that was thrown" }, "failed");`);
  expect(fields).toMatchObject({ err: "the text that was thrown" });
  const { fields: outer } = await logged(
    `log.error({ err: new Error("it failed", { cause: "a text" }) }, "failed");`,
  );
  expect(outer).toMatchObject({ err: { message: "it failed", cause: "a text" } });
});

test("an error of the database is logged with its SQLSTATE, and without the values of its rows", async () => {
  const { line, fields } = await logged(`
    import postgres from "postgres";
    const err = new postgres.PostgresError({ code: "40P01", message: "deadlock detected", detail: "Key (id)=(1)" });
    log.error({ err: new Error("it failed", { cause: err }) }, "failed");`);
  expect((fields.err as { cause: unknown }).cause).toMatchObject({
    name: "PostgresError",
    sqlState: "40P01",
    message: "deadlock detected",
  });
  expect(line).not.toContain("(1)");
});
