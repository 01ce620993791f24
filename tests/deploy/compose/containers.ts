/** The running containers: their health, what they may, who leads, and how they end. */
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { waitFor } from "../../support/relay-lab.ts";
import { type Engine, IMAGES } from "./engine.ts";
import { run } from "./run.ts";
import { DOMAIN, type Site } from "./site.ts";

const WAIT_MS = 300_000;
const PROCESSES = ["api", "worker", "indexer-1", "indexer-2"] as const;
const OURS = [...PROCESSES, "backup"] as const;
const INDEXERS = ["indexer-1", "indexer-2"] as const;
const BUN = "/usr/local/bin/bun";
const AUTHORITY = "/data/caddy/pki/authorities/local/root.crt";
const METRICS = 'console.log(await (await fetch("http://127.0.0.1:9464/metrics")).text())';
const TMP_BYTES_MAX = 64 * 2 ** 20;

type State = { Status: string; Pid: number; ExitCode: number; Health?: { Status: string } };
type Inspected = {
  State: State;
  RestartCount: number;
  HostConfig: { Memory: number };
  NetworkSettings: { Networks: Record<string, { IPAddress: string }> };
};

export function watchContainers({ docker, env }: Engine, site: Site) {
  const idOf = (service: string) =>
    docker(
      ...["ps", "--all", "--quiet", "--filter", `label=com.docker.compose.service=${service}`],
      ...["--filter", "label=com.docker.compose.oneoff=False"],
    );
  const inspect = async (service: string) =>
    (JSON.parse(await docker("inspect", await idOf(service))) as Inspected[])[0] as Inspected;
  const evaluate = async (service: string, code: string, ...options: string[]) =>
    run(["docker", "exec", ...options, await idOf(service), BUN, "-e", code], { env });
  /** In a container of its own on one of the two networks. */
  const evaluateOn = (network: string, code: string) =>
    docker(
      ...["run", "--rm", "--network", `payments_${network}`, "--volume", `${site.authorities}:/a.pem:ro`],
      ...["--env", "NODE_EXTRA_CA_CERTS=/a.pem", IMAGES.service, "-e", code],
    );

  const waitForHealth = () =>
    waitFor(
      "every container to be healthy",
      async () => {
        const healthy = await Promise.all(
          [...PROCESSES, "postgres"].map(
            async (name) => (await inspect(name)).State.Health?.Status === "healthy",
          ),
        );
        const running = await Promise.all(
          ["caddy", "backup"].map(async (name) => (await inspect(name)).State.Status === "running"),
        );
        return [...healthy, ...running].every(Boolean);
      },
      WAIT_MS,
    );

  const trustCaddy = async () => {
    const read = async () => {
      const { code, output } = await run(["docker", "exec", await idOf("caddy"), "cat", AUTHORITY], { env });
      return code === 0 && output;
    };
    appendFileSync(site.authorities, await waitFor("Caddy's authority", read, WAIT_MS));
    const probe = `const { status } = await fetch("https://${DOMAIN}/health/ready"); process.exit(status === 200 ? 0 : 1)`;
    await waitFor(
      "the service behind Caddy",
      async () => (await site.fromOutside([process.execPath, "-e", probe], {})).code === 0,
      WAIT_MS,
    );
  };

  const waitForBackup = () =>
    waitFor(
      "a backup",
      async () => {
        const [file] = readdirSync(join(site.folder, "backups")).filter((name) => name.endsWith(".backup"));
        const log = await site.compose("logs", "--no-color", "backup");
        return file !== undefined && log.split("\n").find((line) => line.includes("read back and complete"));
      },
      WAIT_MS,
    );

  const checkProcess = async (name: string): Promise<string> => {
    const { State, HostConfig } = await inspect(name);
    const status = readFileSync(`/proc/${State.Pid}/status`, "utf8");
    const lineOf = (key: string) => new RegExp(`^${key}:\\s*(.*)$`, "m").exec(status)?.[1] ?? "";
    expectEqual(`${name}: users`, lineOf("Uid").split(/\s+/), ["65532", "65532", "65532", "65532"]);
    for (const set of ["CapPrm", "CapEff", "CapBnd", "CapInh"])
      expectEqual(`${name}: ${set}`, Number(`0x${lineOf(set)}`), 0);
    expectEqual(`${name}: NoNewPrivs`, lineOf("NoNewPrivs"), "1");
    // as root: the file's owner is not what refuses it
    const write = await evaluate(name, 'require("fs").writeFileSync("/app/written", "")', "--user", "0");
    expectEqual(`${name}: a write to its root`, [write.code, write.output.includes("EROFS")], [1, true]);
    const fill = `require("fs").writeFileSync("/tmp/filled", Buffer.alloc(${TMP_BYTES_MAX} + 1))`;
    const filled = await evaluate(name, fill);
    expectEqual(`${name}: too much in /tmp`, [filled.code, filled.output.includes("ENOSPC")], [1, true]);
    const tidied = await evaluate(name, 'require("fs").rmSync("/tmp/filled")');
    expectEqual(`${name}: /tmp is writable`, tidied.code, 0);
    const limit = await evaluate(
      name,
      `const fs = require("fs"), [now, before] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
       console.log(fs.readFileSync(fs.existsSync(now) ? now : before, "utf8").trim())`,
    );
    expectEqual(`${name}: memory`, Number(limit.output), HostConfig.Memory);
    const secrets = await evaluate(name, 'console.log(require("fs").readdirSync("/run/secrets").join(" "))');
    return `${name}: user 65532, no capability, read-only, ${HostConfig.Memory / 2 ** 20} MB, secrets ${secrets.output.trim()}`;
  };

  const checkPostgres = async (): Promise<string> => {
    const { Networks } = (await inspect("postgres")).NetworkSettings;
    expectEqual("Postgres: networks", Object.keys(Networks), ["payments_inside"]);
    const ip = Networks.payments_inside?.IPAddress ?? "";
    const connect = `const end = (what) => { console.log(what); process.exit() };
      require("net").connect(5432, "${ip}").on("connect", () => end("connected")).on("error", () => end("refused")).setTimeout(5_000, () => end("silent"))`;
    expectEqual("Postgres from inside", await evaluateOn("inside", connect), "connected");
    const outside = await evaluateOn("outside", connect);
    expectEqual(`Postgres from outside (${outside})`, ["refused", "silent"].includes(outside), true);
    // Caddy's port, by its address in the other network
    const caddy = (await inspect("caddy")).NetworkSettings.Networks.payments_outside?.IPAddress ?? "";
    const probe = `timeout 5 bash -c 'exec 3<>/dev/tcp/${caddy}/80'`;
    const leave = async (service: string) =>
      (await run(["docker", "exec", await idOf(service), "bash", "-c", probe], { env })).code;
    expectEqual("the api reaches the network outside", await leave("api"), 0);
    const left = await leave("postgres");
    expectEqual(`Postgres leaves its network (${left})`, [1, 124].includes(left), true);
    return `postgres: reached from inside, from outside ${outside}, and reaches nothing outside`;
  };

  /** Two addresses use two counters of the same limit. */
  const checkCallers = async (): Promise<string> => {
    const call = `const { headers } = await fetch("https://${DOMAIN}/v1/email-verification/verify", { method: "POST",
      headers: { "content-type": "application/json" }, body: JSON.stringify({ email: crypto.randomUUID() + "@example.com", otp: "123456" }) });
      console.log(headers.get("x-ratelimit-limit"), headers.get("x-ratelimit-remaining"))`;
    const first = await site.fromOutside([process.execPath, "-e", call], {});
    const [limit, left] = (await evaluateOn("outside", call)).split(" ").map(Number);
    expectEqual(`calls left to another caller after ${first.output.trim()}`, left, Number(limit) - 1);
    const [, again] = (await evaluateOn("outside", `${call};\n{${call}}`)).split("\n");
    expectEqual("calls left to one caller after three", Number(again?.split(" ")[1]) < Number(left), true);
    return `callers: each address has ${limit} calls of its own`;
  };

  const checkLimits = async (): Promise<string[]> => {
    const lines: string[] = [];
    for (const name of OURS) lines.push(await checkProcess(name));
    return [...lines, await checkPostgres(), await checkCallers()];
  };

  const leads = async (name: string) => {
    const { code, output } = await evaluate(name, METRICS);
    return code === 0 && /^indexer_leader\{[^}]*\} 1$/m.test(output);
  };
  const killLeader = async (): Promise<string> => {
    const leader = await waitFor("a leader", async () => {
      for (const name of INDEXERS) if (await leads(name)) return name;
      return undefined;
    });
    const other = INDEXERS.find((name) => name !== leader) ?? INDEXERS[0];
    const { Pid } = (await inspect(leader)).State;
    process.kill(Pid, "SIGKILL");
    await waitFor(`${other} to lead`, () => leads(other), WAIT_MS);
    await waitFor(`${leader} to be started again`, async () => {
      const { State, RestartCount } = await inspect(leader);
      return RestartCount === 1 && State.Status === "running" && State.Pid !== Pid;
    });
    return `${leader} was killed, ${other} leads, ${leader} was started again`;
  };

  const stop = async (): Promise<string> => {
    await site.compose("stop");
    for (const name of [...OURS, "postgres", "caddy", "migrate"])
      expectEqual(`${name}: exit code`, (await inspect(name)).State.ExitCode, 0);
    await site.compose("down", "--volumes");
    expectEqual(
      "containers after down",
      await docker("ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project=payments"),
      "",
    );
    return "every process ended with 0, and no container is left";
  };

  return { waitForHealth, trustCaddy, waitForBackup, checkLimits, killLeader, stop };
}

function expectEqual(what: string, found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected))
    throw new Error(`${what}: ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
}
