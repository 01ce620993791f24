/**
 * The cost of a request: a bare Elysia, then our public route, a cookie route (one query: the session) and a cookie route with one
 * query of its own, without and with rate limits (one more query). CPU time is the server process's, from /proc, and more stable than
 * rates on a shared machine.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../local/free-port.ts";
import { type BoundProcess, spawnBound } from "../local/processes/bound-process.ts";
import { buildPages } from "../local/processes/service-process.ts";
import { serviceEnv } from "../local/service-env.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { drive } from "./load.ts";
import { describeMachine, percentile, printTable, type Row } from "./report.ts";

const CONNECTIONS = 32;
const WARM_UP_S = 1;
const MEASURED_S = 4;
/** Limits are hourly: enough users and addresses to stay below all of them. */
const USERS = 150;
const ADDRESSES = 500;
const TICKS_PER_S = 100;
const READY_TIMEOUT_MS = 20_000;

type Server = { port: number; process: BoundProcess };
type Case = { what: string; path: string; isSignedIn: boolean };

const CASES: Case[] = [
  { what: "GET /health/live (no session, no limit)", path: "/health/live", isSignedIn: false },
  { what: "GET /v1/networks (public)", path: "/v1/networks", isSignedIn: false },
  { what: "GET /v1/auth/status (cookie)", path: "/v1/auth/status", isSignedIn: true },
  { what: "GET /v1/auth/me (cookie + 1 query)", path: "/v1/auth/me", isSignedIn: true },
];

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "api", machine: describeMachine() }));
  const rows: Row[] = [];
  const keep = (row: Row) => {
    console.log(JSON.stringify(row));
    rows.push(row);
  };
  const bare = await start(["bench/bare-elysia.ts"], {}, "/");
  for (const path of ["/", "/json"])
    keep(await measure(`bare Elysia ${path}`, bare, () => `GET ${path} HTTP/1.1\r\nhost: localhost`));
  await bare.process.stop();

  const dataDir = mkdtempSync(join(tmpdir(), "bench-api-"));
  const [db, chain] = await Promise.all([createTestDatabase(), startTestChain()]);
  try {
    for (const limits of ["0", "1"]) {
      const server = await startApi({ databaseUrl: db.url, rpcUrl: chain.rpcUrl, dataDir, limits });
      const tokens = await signInAll(server.port);
      for (const one of CASES) {
        const what = limits === "1" ? `${one.what}, limits on` : one.what;
        keep(await measure(what, server, (index) => headOf(one, index, tokens)));
      }
      await server.process.stop();
    }
  } finally {
    await Promise.all([db.drop(), chain.stop()]);
    rmSync(dataDir, { recursive: true, force: true });
  }
  printTable(rows);
}

function headOf({ path, isSignedIn }: Case, index: number, tokens: readonly string[]): string {
  const lines = [`GET ${path} HTTP/1.1`, "host: localhost"];
  if (isSignedIn) lines.push(`cookie: authToken=${tokens[index % tokens.length]}`);
  else lines.push(`x-forwarded-for: 203.0.${Math.floor((index % ADDRESSES) / 250)}.${index % 250}`);
  return lines.join("\r\n");
}

async function measure(
  what: string,
  { port, process }: Server,
  request: (index: number) => string,
): Promise<Row> {
  await drive({ port, connections: CONNECTIONS, seconds: WARM_UP_S, request });
  const cpuBefore = cpuSeconds(process.pid);
  const { requests, seconds, timesMs, statuses } = await drive({
    port,
    connections: CONNECTIONS,
    seconds: MEASURED_S,
    request,
  });
  const cpu = cpuSeconds(process.pid) - cpuBefore;
  return {
    bench: "api",
    what,
    "requests/s": Math.round(requests / seconds),
    "p50 ms": percentile(timesMs, 0.5),
    "p99 ms": percentile(timesMs, 0.99),
    "CPU µs/request": Math.round((cpu / requests) * 1e6),
    "not 200": requests - (statuses[200] ?? 0),
  };
}

/** User and system time of a process so far (proc(5), fields 14 and 15). */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
}

async function startApi(given: {
  databaseUrl: string;
  rpcUrl: string;
  dataDir: string;
  limits: string;
}): Promise<Server> {
  const settings = {
    databaseUrl: given.databaseUrl,
    rpcUrls: { "base-sepolia": given.rpcUrl },
    smtpUrl: "",
    jwtSecret: "4f3c2b1a09f8e7d6c5b4a3928170615243342516078899aabbccddeeff001122",
    otpPepper: "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789abcdef",
    relayerKeys: "",
    dataDir: given.dataDir,
  };
  const { PATH, HOME } = process.env;
  const own = { PATH, HOME, NODE_ENV: "test", RATE_LIMITS: given.limits, TRUSTED_PROXIES: "127.0.0.1,::1" };
  await buildPages();
  return start(["api/main.ts"], serviceEnv("api", settings, own), "/health/live");
}

async function start(
  args: string[],
  env: Record<string, string | undefined>,
  readyPath: string,
): Promise<Server> {
  const port = await findFreePort();
  const bound = await spawnBound({
    command: process.execPath,
    args,
    cwd: join(import.meta.dir, ".."),
    env: { PATH: process.env.PATH, ...env, PORT: String(port) },
    stopSignal: "SIGTERM",
  });
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const answer = await fetch(`http://127.0.0.1:${port}${readyPath}`).catch(() => undefined);
    if (answer?.ok) return { port, process: bound };
    await Bun.sleep(20);
  }
  await bound.stop();
  throw new Error(`${args.join(" ")} did not answer within ${READY_TIMEOUT_MS} ms`);
}

/** Registers users and gets a session token for each. */
async function signInAll(port: number): Promise<string[]> {
  const post = async (path: string, body: unknown, address: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-forwarded-for": address },
      body: JSON.stringify(body),
    });
    return answer.json() as Promise<{ token?: string }>;
  };
  const tokens: string[] = [];
  for (let user = 0; user < USERS; user++) {
    const email = `bench-${user}@example.com`;
    await post("/v1/identity/register", { email }, `198.51.100.${user}`);
    const { token } = await post("/v1/test/token", { email }, `198.51.100.${user}`);
    if (!token) throw new Error(`no token for ${email}`);
    tokens.push(token);
  }
  return tokens;
}
