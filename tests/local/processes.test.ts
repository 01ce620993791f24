import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BoundProcess, spawnBound } from "../../local/processes/bound-process.ts";
import {
  identifyProcess,
  isSameProcessAlive,
  waitUntilGone,
} from "../../local/processes/process-identity.ts";
import { restartOnExit } from "../../local/processes/restart-policy.ts";
import { endLeftovers, recordProcess } from "../../local/processes/stale-processes.ts";
import { supervise } from "../../local/processes/supervise.ts";
import { ensureSecret } from "../../local/secrets.ts";

const LOCAL = join(import.meta.dir, "../../local");
/** For what the kernel or a watching shell ends. */
const GONE_WITHIN_MS = 60_000;
const folder = mkdtempSync(join(tmpdir(), "local-processes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A process that starts a child bound to it, reports the child's id and waits to be killed. */
async function startParent(env: Record<string, string | undefined> = process.env) {
  const script = `
    const { spawnBound } = await import(${JSON.stringify(join(LOCAL, "processes", "bound-process.ts"))});
    const child = await spawnBound({ command: "sleep", args: ["600"], stopSignal: "SIGTERM" });
    console.log(child.pid);
    setInterval(() => {}, 1000);`;
  const parent = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit", env });
  const first = await parent.stdout.getReader().read();
  const child = identifyProcess(Number(new TextDecoder().decode(first.value)));
  if (!child) throw new Error("the child is not there");
  return { parent, child };
}

test("a bound process ends when its owner is killed with SIGKILL", async () => {
  const { parent, child } = await startParent();
  expect(isSameProcessAlive(child)).toBe(true);
  parent.kill("SIGKILL");
  await parent.exited;
  expect(await waitUntilGone(child, GONE_WITHIN_MS)).toBe(true);
});

test("a bound process also ends with its owner without setpriv (macOS), by a watching shell", async () => {
  const bin = join(folder, "bin");
  await Bun.$`mkdir -p ${bin} && ln -s ${Bun.which("sh")} ${Bun.which("sleep")} ${bin}/`.quiet();
  const { parent, child } = await startParent({ ...process.env, PATH: bin });
  if (process.platform === "linux") {
    expect(readFileSync(`/proc/${child.pid}/cmdline`, "utf8")).toStartWith("sh\0");
  }
  parent.kill("SIGKILL");
  await parent.exited;
  expect(await waitUntilGone(child, GONE_WITHIN_MS)).toBe(true);
});

test("a bound process gets the stop signal first, and its exit code is reported", async () => {
  let said = "";
  const child = await spawnBound({
    command: "sh",
    args: ["-c", "trap 'echo asked; exit 7' TERM; echo up; while :; do sleep 0.05; done"],
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      said += chunk.toString();
    },
  });
  await waitFor(() => said.includes("up"));
  await child.stop();
  expect(await child.exited).toBe(7);
  expect(said).toContain("asked");
});

test("a bound process that does not stop is killed with its children", async () => {
  let said = "";
  const child = await spawnBound({
    command: "sh",
    args: ["-c", "trap '' TERM; sleep 600 & echo $!; wait; wait"],
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      said += chunk.toString();
    },
  });
  await waitFor(() => said.includes("\n"));
  const grandchild = identifyProcess(Number(said));
  if (!grandchild) throw new Error("the grandchild is not there");
  await child.stop(200);
  expect(await child.exited).toBe("SIGKILL");
  expect(await waitUntilGone(grandchild, GONE_WITHIN_MS)).toBe(true);
});

test("ends processes of an earlier start, and never an unrelated process with the same id", async () => {
  const dataDir = join(folder, "leftovers");
  const left = await spawnBound({ command: "sleep", args: ["600"], stopSignal: "SIGTERM" });
  const stranger = await spawnBound({ command: "sleep", args: ["600"], stopSignal: "SIGTERM" });
  recordProcess(dataDir, "worker", left.pid);
  writeFileSync(
    join(dataDir, "processes/api.json"),
    JSON.stringify({ pid: stranger.pid, startedAt: "of another process" }),
  );
  writeFileSync(join(dataDir, "processes/indexer.json"), "{ torn");
  expect(await endLeftovers(dataDir)).toEqual(["worker"]);
  expect(await left.exited).toBe("SIGTERM");
  expect(identifyProcess(stranger.pid)).toBeDefined();
  expect(readdirSync(join(dataDir, "processes"))).toEqual([]);
  await stranger.stop();
});

test("restarts a part that died, but not one that was stopped", async () => {
  const reports: string[] = [];
  const started: BoundProcess[] = [];
  const start = async () => {
    const part = await spawnBound({ command: "sleep", args: ["600"], stopSignal: "SIGTERM" });
    started.push(part);
    return part;
  };
  const { part, stop } = await restartOnExit("The part", start, (sentence) => reports.push(sentence));
  part.kill("SIGKILL");
  await waitFor(() => started.length === 2);
  expect(reports).toEqual(["The part ended (SIGKILL); restarting."]);
  await stop();
  expect(await started[1]?.exited).toBe("SIGTERM");
  expect(started).toHaveLength(2);
});

test("a process that refuses its settings is reported with its reason and not restarted", async () => {
  const said: string[] = [];
  const refused = Promise.withResolvers<void>();
  const supervisor = await supervise({
    dataDir: join(folder, "misconfigured"),
    processes: [{ kind: "indexer", env: { PATH: process.env.PATH, NETWORKS: "polygon" } }],
    report: (sentence) => said.push(sentence),
    onMisconfigured: refused.resolve,
  });
  await refused.promise;
  expect(supervisor.pids()).toEqual({});
  await supervisor.stop();
  expect(said).toEqual([
    expect.stringMatching(/^indexer cannot run with these settings\.\n[\s\S]* NETWORKS: /),
  ]);
}, 120_000);

test("a secret is generated once, with 32 random bytes, readable by its owner only", () => {
  const secret = ensureSecret(folder, "jwt-secret");
  expect(secret).toMatch(/^[0-9a-f]{64}$/);
  expect(ensureSecret(folder, "jwt-secret")).toBe(secret);
  expect(ensureSecret(folder, "otp-pepper")).not.toBe(secret);
  expect(statSync(join(folder, "secrets/jwt-secret")).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(folder, "secrets")).sort()).toEqual(["jwt-secret", "otp-pepper"]);
});

async function waitFor(isDone: () => boolean): Promise<void> {
  const deadline = Date.now() + 45_000;
  while (!isDone()) {
    if (Date.now() > deadline) throw new Error("the condition did not become true in time");
    await Bun.sleep(10);
  }
}
