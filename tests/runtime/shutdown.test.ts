import { describe, expect, test } from "bun:test";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");

/** Runs a script that has `stop` and `print`, and returns its output and exit code. `level`: of the log's lines, which are part of the output. */
async function run(script: string, signal?: "SIGTERM", level: "silent" | "warn" = "silent") {
  const source = `
    import { openLog } from "${ROOT}/core/runtime/log.ts";
    import { handleStop } from "${ROOT}/core/runtime/shutdown.ts";
    const print = (text) => process.stdout.write(text + "\\n");
    const stop = handleStop(openLog("test", "${level}"));
    ${script}
    setInterval(() => {}, 1000);
    print("ready");`;
  const child = Bun.spawn([process.execPath, "-e", source], { stdout: "pipe", stderr: "pipe" });
  const reader = child.stdout.getReader();
  const first = new TextDecoder().decode((await reader.read()).value);
  if (signal) child.kill(signal);
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    rest += new TextDecoder().decode(part.value);
  }
  return { lines: (first + rest).trim().split("\n"), exitCode: await child.exited };
}

describe("graceful shutdown", () => {
  test("closes the last registered first and exits 0", async () => {
    const { lines, exitCode } = await run(
      `stop.onStop("a", () => print("a")); stop.onStop("b", () => print("b"));`,
      "SIGTERM",
    );
    expect(lines).toEqual(["ready", "b", "a"]);
    expect(exitCode).toBe(0);
  });

  test("behavior: a step that hangs is abandoned after its timeout", async () => {
    const { lines, exitCode } = await run(
      `stop.onStop("a", () => print("a")); stop.onStop("hangs", () => new Promise(() => {}), 100);`,
      "SIGTERM",
    );
    expect(lines).toEqual(["ready", "a"]);
    expect(exitCode).toBe(0);
  });

  test("behavior: a step that throws does not keep the others from closing", async () => {
    const { lines } = await run(
      `stop.onStop("a", () => print("a")); stop.onStop("throws", () => { throw new Error("no"); });`,
      "SIGTERM",
    );
    expect(lines).toEqual(["ready", "a"]);
  });

  test("an unhandled failure closes everything and exits 1", async () => {
    const { lines, exitCode } = await run(
      `stop.onStop("a", () => print("a")); setTimeout(() => Promise.reject(new Error("lost")), 50);`,
    );
    expect(lines).toEqual(["ready", "a"]);
    expect(exitCode).toBe(1);
  });

  test("behavior: a second signal neither begins again nor ends the process before its steps", async () => {
    const { lines, exitCode } = await run(
      `stop.onStop("a", () => print("a"));
      stop.onStop("slow", async () => {
        process.kill(process.pid, "SIGINT");
        await Bun.sleep(200);
        print("slow");
      });`,
      "SIGTERM",
    );
    expect(lines).toEqual(["ready", "slow", "a"]);
    expect(exitCode).toBe(0);
  });

  test("a fatal failure is in the log with its error, once; a further one while stopping is not", async () => {
    const { lines } = await run(
      `stop.onStop("a", () => stop.fail("too late"));
      setTimeout(() => Promise.reject(new Error("lost")), 50);`,
      undefined,
      "warn",
    );
    const [ready, line = "", ...more] = lines;
    expect([ready, ...more]).toEqual(["ready"]);
    expect(JSON.parse(line)).toMatchObject({
      level: "fatal",
      msg: "unhandled rejection",
      err: { message: "lost" },
    });
  });

  test("only a step that is abandoned is in the log", async () => {
    const { lines } = await run(
      `stop.onStop("a", () => {}); stop.onStop("hangs", () => new Promise(() => {}), 100);`,
      "SIGTERM",
      "warn",
    );
    expect(lines).toHaveLength(2);
    expect(JSON.parse(lines[1] ?? "")).toMatchObject({ step: "hangs", msg: "stop step timed out" });
  });
});
