/** The command line, built into one file and run by Node, against the running service: what it prints, for people and programs, and what it did. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { tableOf } from "../../cli/table.ts";
import { testWalletAddress } from "../../local/chain/accounts.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import packageJson from "../../package.json" with { type: "json" };
import { verifyWebhook } from "../../sdk/verify-webhook.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startReceiver } from "../webhooks/receiver.ts";

const ROOT = join(import.meta.dir, "../..");
const SCOPES = ["links:read", "links:write", "transactions:read", "exports", "webhooks"];
const folder = mkdtempSync(join(tmpdir(), "test-cli-"));
const file = join(folder, "usdc.mjs");
const node = Bun.which("node") ?? process.execPath;

let world: MerchantWorld;
let ann: Merchant;
let apiKey: string;

beforeAll(async () => {
  await Bun.$`${process.execPath} ${join(ROOT, "cli/build.ts")} ${file}`.quiet();
  const account = testWalletAddress();
  const env = { TEST_WALLET: account, WEBHOOK_PRIVATE_TARGETS: "1" };
  // a PDF is exported
  world = await startMerchantWorld({ env });
  await fundUsdc(world.chain.rpcUrl, account, 20_000_000n);
  ann = await signUp(world.baseUrl);
  apiKey = (await ann.client.post("/v1/api-keys", { name: "cli", scopes: SCOPES })).body.data.key;
}, 120_000);
afterAll(async () => {
  await world?.stop();
  callers?.stdin.end();
  await callers?.exited;
  rmSync(folder, { recursive: true });
});

type Run = { code: number; out: string; err: string };

const environment = (env: Record<string, string>) => ({
  ...{ PATH: process.env.PATH ?? "", SERVICE_URL: world.baseUrl, API_KEY: apiKey },
  ...env,
});

/** A process of its own, as a shell starts it: where the end of the process, its output or what it holds open matters. */
async function runAlone(args: readonly string[], env: Record<string, string> = {}): Promise<Run> {
  const child = Bun.spawn([node, file, ...args], {
    ...{ cwd: folder, env: environment(env), stdin: "ignore", stdout: "pipe", stderr: "pipe" },
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, out, err };
}

type Callers = Bun.Subprocess<"pipe", "pipe", "inherit">;
let callers: Callers | undefined;
const open = new Map<number, (run: Run) => void>();
let calls = 0;

/** The same file under the same Node, whose start all these calls share. */
function run(args: readonly string[], env: Record<string, string> = {}): Promise<Run> {
  callers ??= startCallers();
  const id = ++calls;
  const ended = Promise.withResolvers<Run>();
  open.set(id, ended.resolve);
  callers.stdin.write(`${JSON.stringify({ id, args, env: environment(env) })}\n`);
  callers.stdin.flush();
  return ended.promise;
}

function startCallers(): Callers {
  const child = Bun.spawn([node, join(import.meta.dir, "many-calls.mjs"), file], {
    ...{ cwd: folder, stdin: "pipe", stdout: "pipe", stderr: "inherit" },
  });
  void (async () => {
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { id, ...ended } = JSON.parse(line);
        open.get(id)?.(ended);
        open.delete(id);
      }
    }
    for (const end of open.values()) end({ code: -1, out: "", err: "the process of the calls ended" });
  })();
  return child;
}

/** What a program reads. */
async function runJson(args: readonly string[], env?: Record<string, string>) {
  const { code, out, err } = await run([...args, "--json"], env);
  if (code !== 0) throw new Error(err);
  return JSON.parse(out);
}

async function newLink(amount = "0.5"): Promise<{ id: string; url: string; aiUrl: string }> {
  return runJson(["links", "create", "--amount", amount, "--description", "A coffee"]);
}

describe("links", () => {
  test("creates, lists and cancels a link; every line fits 80 columns and no id is cut", async () => {
    const long = "A very long description of what is paid for, 東京で買ったもの, in more than one script";
    const given = ["--amount", "12.5", "--description", long, "--reference", "R-1", "--metadata", "table=7"];
    const made = await runJson(["links", "create", ...given, "--expires-in", "2"]);
    expect(made).toMatchObject({
      amount: 12.5,
      reference: "R-1",
      metadata: { table: "7" },
      status: "ACTIVE",
    });
    const other = await newLink("0.000001");
    const { out, code } = await runAlone(["links", "list"]);
    expect(code).toBe(0);
    expect(out).toContain(made.id);
    expect(out).toContain(other.id);
    expect(out).toContain("12.50");
    expect(out).toContain("0.000001");
    expect(
      out
        .split("\n")
        .map((line) => Bun.stringWidth(line))
        .filter((width) => width > 80),
    ).toEqual([]);
    const cancelled = await run(["links", "cancel", made.url]);
    expect(cancelled.out).toContain("CANCELLED");
    const listed = await runJson(["links", "list", "--status", "cancelled", "--reference", "R-1"]);
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([made.id]);
  });

  test("a description cannot send control sequences to the terminal or reverse its lines", async () => {
    await run([
      "links",
      "create",
      "--amount",
      "1",
      "--description",
      "x\u001b[2Jy\u202ez",
      "--reference",
      "esc",
    ]);
    const { out } = await run(["links", "list", "--reference", "esc"]);
    expect(out).toContain("x [2Jy z");
    expect(out).not.toContain("\u001b");
    expect(out).not.toContain("\u202e");
  });

  test("two calls with one idempotency key make one link", async () => {
    const args = ["links", "create", "--amount", "1", "--description", "d", "--idempotency-key", "cli-key-1"];
    expect((await runJson(args)).id).toBe((await runJson(args)).id);
  });
});

describe("pay", () => {
  test("--test pays with the local chain's test wallet", async () => {
    const { id, aiUrl } = await newLink();
    const { out, err } = await runAlone(["pay", aiUrl, "--test"]);
    expect(`${err}${out}`).toContain("0.50 USDC");
    const [row] = await world.sql<{ state: string; payer: string }[]>`
      select state, payer from payments where link_id = ${id}`;
    expect(["MINED", "CONFIRMED"]).toContain(row?.state ?? "");
    expect(row?.payer).toBe(testWalletAddress().toLowerCase());
  });

  test("with a key pays at most --max, and --max is required", async () => {
    const key = generatePrivateKey();
    await fundUsdc(world.chain.rpcUrl, privateKeyToAccount(key).address, 1_000_000n);
    const env = { PAYER_PRIVATE_KEY: key };
    const { id } = await newLink();
    expect(await run(["pay", id], env)).toMatchObject({ code: 2 });
    const over = await run(["pay", id, "--max", "0.499999"], env);
    expect(over).toMatchObject({ code: 1, out: "" });
    expect(over.err).toStartWith("OVER_LIMIT: ");
    expect(await runJson(["pay", id, "--max", "0.5"], env)).toMatchObject({ linkId: id, amount: "0.50" });
    expect((await run(["pay", id, "--max", "0.5"], env)).err).not.toContain(key);
  });

  test("error: a link of another service, and a service without a test wallet's link", async () => {
    const { id } = await newLink();
    expect(await run(["pay", `https://evil.example/pay/${id}`, "--test"])).toMatchObject({ code: 2 });
    expect(await run(["pay", "link_AAAAAAAAAAAAAAAAAAAAAA", "--test", "--max", "1"])).not.toMatchObject({
      code: 0,
    });
  });
});

describe("listen", () => {
  test("forwards an event with the body of a webhook, signed with the secret that it was given", async () => {
    const hooked = startReceiver();
    const receiver = startReceiver();
    try {
      const secret = `whsec_${Buffer.from("a secret of 32 bytes for a test!").toString("base64")}`;
      const eventTypes = ["payment_link.created"];
      await ann.client.post("/v1/webhook-endpoints", { url: hooked.url, eventTypes });
      // an event is listed only when every older transaction of the server has ended, those of other databases too
      const earlier = await newLink("2");
      const nextCursor = await waitFor("the event of the newest link", async () => {
        const { body } = await ann.client.get("/v1/events?limit=100");
        const [last] = body.data.slice(-1);
        return last?.subjectId === earlier.id ? body.pagination.nextCursor : undefined;
      });
      const cursor = ["--cursor", nextCursor];
      const listening = runAlone([
        ...["listen", "--forward", receiver.url, "--secret", secret, ...cursor],
        ...["--events", "payment_link.created", "--count", "1"],
      ]);
      const { id } = await newLink("3");
      expect(await listening).toMatchObject({ code: 0 });
      expect((await listening).out).toMatch(/payment_link\.created +link_\S+ +200 in \d+ ms/);
      const webhook = await waitFor("the webhook", async () =>
        hooked.received.find((one) => one.json.data.link?.id === id),
      );
      const [forwarded] = receiver.received;
      expect(forwarded?.json).toEqual(webhook.json);
      expect(forwarded?.id).toBe(webhook.id);
      const verified = await verifyWebhook(forwarded?.body ?? "", forwarded?.headers ?? new Headers(), {
        secret,
      });
      expect(verified.message.data.link?.id).toBe(id);
    } finally {
      await Promise.all([hooked.stop(), receiver.stop()]);
    }
  });

  test("error: a key without the scope ends it with the reason", async () => {
    const { body } = await ann.client.post("/v1/api-keys", { name: "less", scopes: ["links:read"] });
    const { code, err } = await runAlone(["listen"], { API_KEY: body.data.key });
    expect(code).toBe(1);
    expect(err).toContain("FORBIDDEN: ");
    expect(err).toContain("webhooks");
  });

  test("error: a service that does not answer ends it with a hint about what to check", async () => {
    const { code, err } = await runAlone(["listen", "--url", "http://127.0.0.1:1"]);
    expect(code).toBe(1);
    expect(err).toContain("UNREACHABLE: ");
    expect(err).toContain("SERVICE_URL");
    expect(err).not.toContain("Events of");
  });
});

test("export writes text to standard output and files to --out, in the caller's directory", async () => {
  const { out } = await runAlone(["export", "--format", "csv"]);
  expect(out).toStartWith("Date,");
  const made = await runJson(["export", "--format", "pdf", "--out", "report.pdf"]);
  expect(made.file).toEndWith("report.pdf");
  expect(readFileSync(join(folder, "report.pdf")).subarray(0, 5).toString()).toBe("%PDF-");
  expect(await runAlone(["export", "--format", "pdf"])).toMatchObject({ code: 2, out: "" });
});

test("npx runs the same program, and relative paths are those of the caller", async () => {
  const { bin } = await Bun.file(join(ROOT, "package.json")).json();
  const env = { ...process.env, SERVICE_URL: world.baseUrl, API_KEY: apiKey };
  const args = ["export", "--format", "csv", "--out", "from-npx.csv"];
  const child = Bun.spawn([node, join(ROOT, bin.usdc), ...args], { cwd: folder, env, stdin: "ignore" });
  expect(await child.exited).toBe(0);
  expect(readFileSync(join(folder, "from-npx.csv"), "utf8")).toStartWith("Date,");
  expect(statSync(join(ROOT, bin.usdc)).mode & 0o111).not.toBe(0);
});

describe("doctor", () => {
  const levels = async (env: Record<string, string> = {}) => {
    const { out, code } = await run(["doctor", "--json"], env);
    const { findings } = JSON.parse(out) as { findings: { subject: string; level: string; fix?: string }[] };
    return { code, of: Object.fromEntries(findings.map((one) => [one.subject, one])) };
  };

  test("finds nothing wrong but the missing scope", async () => {
    const { code, of } = await levels();
    expect(code).toBe(0);
    expect([of.address?.level, of.service?.level, of.clock?.level]).toEqual(["good", "good", "good"]);
    expect(of.key).toMatchObject({ level: "advice", text: "lacks refunds:request" });
  });

  test.each([
    ["a key that the service does not know", { API_KEY: `sk_${"x".repeat(43)}` }, "key"],
    ["a malformed key", { API_KEY: "secret" }, "key"],
    ["a service that is not there", { SERVICE_URL: "http://127.0.0.1:9" }, "service"],
    ["an invalid payer's key", { PAYER_PRIVATE_KEY: "0x1" }, "payer"],
  ])("error: finds %s, with the fix", async (_, env, subject) => {
    const { code, of } = await levels(env);
    expect(code).toBe(1);
    expect(of[subject]?.level).toBe("fault");
    expect(of[subject]?.fix).toBeString();
  });

  test("examines the processes of this machine where their configuration is, and no service elsewhere with them", async () => {
    const bin = join(ROOT, "cli/bin.mjs");
    const look = async (more: Record<string, string>) => {
      const env = { PATH: process.env.PATH ?? "", HOME: folder, ...more };
      const child = Bun.spawn([node, bin, "doctor"], { cwd: folder, env, stdin: "ignore", stdout: "pipe" });
      const [text, code] = await Promise.all([new Response(child.stdout).text(), child.exited]);
      return { code, hasProcesses: text.includes("JWT_SECRET is not set") };
    };
    // the address is the default one, where this run has no service
    expect(await look({ DATABASE_URL: "postgres://127.0.0.1:1/none" })).toEqual({
      code: 1,
      hasProcesses: true,
    });
    expect((await look({})).hasProcesses).toBe(false);
    const both = { DATABASE_URL: "postgres://127.0.0.1:1/none", SERVICE_URL: world.baseUrl };
    expect(await look(both)).toEqual({ code: 0, hasProcesses: false });
  });

  test("error: http to another machine is a fault, and nothing is sent there", async () => {
    const { of } = await levels({ SERVICE_URL: "http://192.0.2.1:1" });
    expect(of.address).toMatchObject({ level: "fault", fix: "Set SERVICE_URL to https://192.0.2.1:1" });
    expect(of.key).toBeUndefined();
  });
});

test("send --prepare prints a URL of the send page, and moves nothing", async () => {
  const to = `0x${"ab".repeat(20)}`;
  const given = ["send", "--prepare", "--to", to, "--amount", "2.50", "--note", "Rent & heat"];
  const { url } = await runJson(given);
  expect(url).toBe(`${world.baseUrl}/send?to=${to}&amount=2.50&note=Rent+%26+heat`);
  expect(await run(["send", "--to", to, "--amount", "2.50"])).toMatchObject({ code: 2 });
  expect(await run(["send", "--prepare", "--to", "0x12", "--amount", "2.50"])).toMatchObject({ code: 2 });
});

test("--version prints the version alone", async () => {
  expect(await run(["--version"])).toMatchObject({ code: 0, out: `${packageJson.version}\n` });
});

test("error: wrong usage exits with 2 and the reason, as JSON for a program", async () => {
  for (const args of [["nonsense"], ["links", "create", "--amout", "3"], ["links", "create"], ["pay"]]) {
    const { code, err, out } = await run([...args, "--json"]);
    expect([code, out, JSON.parse(err).error.code]).toEqual([2, "", "USAGE"]);
  }
  for (const amount of ["0", "1.0000001", "-1", "1e3", "1,5"])
    expect(await run(["links", "create", `--amount=${amount}`, "--description", "d"])).toMatchObject({
      code: 2,
    });
});

test("a table's flexible column gets the remaining width, at least 8 cells, and wide characters count twice", () => {
  const rows = [{ id: "link_1", text: "東京東京東京" }];
  const columns = [
    { title: "ID", read: (row: (typeof rows)[0]) => row.id },
    { title: "TEXT", read: (row: (typeof rows)[0]) => row.text, isFlexible: true as const },
  ];
  expect(tableOf(rows, columns, 20)).toBe("ID      TEXT\nlink_1  東京東京東京");
  expect(tableOf(rows, columns, 19)).toBe("ID      TEXT\nlink_1  東京東京東…");
  expect(tableOf(rows, columns, 2)).toBe("ID      TEXT\nlink_1  東京東…");
});
