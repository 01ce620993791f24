/** Calls of the command line that reach no service: wrong usage, its own output. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { waitFor } from "../links/payer-side.ts";

const folder = mkdtempSync(join(tmpdir(), "test-cli-usage-"));
const file = join(folder, "usdc.mjs");
const node = Bun.which("node") ?? process.execPath;

beforeAll(async () => {
  await Bun.$`${process.execPath} ${join(import.meta.dir, "../../cli/build.ts")} ${file}`.quiet();
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true }));

async function run(
  args: readonly string[],
  given: Record<string, string> = {},
): Promise<{ code: number; out: string; err: string }> {
  const env = {
    ...{ PATH: process.env.PATH ?? "", SERVICE_URL: "http://127.0.0.1:9" },
    API_KEY: `sk_${"x".repeat(43)}`,
    ...given,
  };
  const child = Bun.spawn([node, file, ...args], {
    ...{ cwd: folder, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" },
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, out, err };
}

test("--version prints the version alone", async () => {
  expect(await run(["--version"])).toMatchObject({ code: 0, out: `${packageJson.version}\n` });
});

test("error: an API_KEY that no header can hold is named, without its value", async () => {
  for (const key of ["sk_a\nb", "sk_ключ"]) {
    const { code, err } = await run(["links", "list", "--json"], { API_KEY: key });
    expect([code, JSON.parse(err).error.message]).toEqual([2, "API_KEY contains characters that no key has"]);
  }
});

const create = ["links", "create", "--amount", "1", "--description", "d"];
const wrongAmounts = ["0", "1.0000001", "-1", "1e3", "1,5"].map((amount) => [
  "links",
  "create",
  `--amount=${amount}`,
  "--description",
  "d",
]);

test.each([
  [["nonsense"]],
  [["links", "create", "--amout", "3"]],
  [["links", "create"]],
  [["pay"]],
  ...wrongAmounts.map((args) => [args]),
])("error: wrong usage exits with 2, and says so as JSON for a program: %j", async (args) => {
  const { code, err, out } = await run([...args, "--json"]);
  expect([code, out, JSON.parse(err).error.code]).toEqual([2, "", "USAGE"]);
});

test.each([
  [["pay", "link_P7WW0CUZROYPRapDcnVNdV", "--max", "5", "--max=500"], "--max is given twice"],
  [[...create, "--amount", "2"], "--amount is given twice"],
  [[...create, "--metadata", "a=1", "--metadata", "a=2"], "--metadata gives the key a twice"],
  [[...create, "--expires-in", "2161"], "--expires-in must be a whole number from 1 to 2160, not 2161"],
  [[...create, "--expires-in", "0x10"], "--expires-in must be a whole number from 1 to 2160, not 0x10"],
  [
    [...create, "--idempotency-key", "order 1 €"],
    "--idempotency-key must be 1 to 255 printable ASCII characters",
  ],
  [["links", "list", "--limit", "1001"], "--limit must be a whole number from 1 to 1000, not 1001"],
  [["links", "list", "--limit", "0"], "--limit must be a whole number from 1 to 1000, not 0"],
  [["listen", "--events", ""], "--events must be types such as payment_link.paid, not nothing"],
  [["listen", "--events", "payment_link.paid,x"], "--events must be types such as payment_link.paid, not x"],
  [
    ["listen", "--forward", "http://"],
    "--forward must be a URL that begins with http:// or https://, not http://",
  ],
  [
    ["links", "list", "--url", "http://user:hunter2@127.0.0.1:9"],
    "The service's address must have no user, password, query or fragment",
  ],
  [
    ["links", "list", "--url", "http://127.0.0.1:9?x"],
    "The service's address must have no user, password, query or fragment",
  ],
] as const)("error: the reason for refusing %j is %s", async (args, message) => {
  const { code, err } = await run([...args, "--json"]);
  expect([code, JSON.parse(err).error.message]).toEqual([2, message]);
});

test("output closed early by its reader, as with `head`, is not a failure", async () => {
  const ended = await Bun.$`sh -c ${`"${node}" "${file}" help 2>err.txt; echo $? >code.txt`} | true`
    .cwd(folder)
    .quiet()
    .nothrow();
  expect(ended.exitCode).toBe(0);
  const read = (name: string) =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), "utf8") : "";
  const code = await waitFor("the exit code", async () => read("code.txt") || undefined);
  expect([code, read("err.txt")]).toEqual(["0\n", ""]);
});

test.each([429, 503])("doctor claims no scope of a key when the service answers %d", async (status) => {
  const server = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch: ({ url }) =>
      url.endsWith("/health")
        ? Response.json({ version: "1", checks: { database: { status: "healthy" } } })
        : new Response("<html>busy</html>", { status, headers: { "content-type": "text/html" } }),
  });
  try {
    const { out, code } = await run(["doctor", "--json", "--url", `http://127.0.0.1:${server.port}`]);
    const { findings } = JSON.parse(out) as { findings: { subject: string; level: string; text: string }[] };
    expect([code, findings.find(({ subject }) => subject === "key")]).toEqual([
      0,
      expect.objectContaining({ level: "advice", text: expect.stringContaining("its scopes are unknown") }),
    ]);
  } finally {
    await server.stop();
  }
});
