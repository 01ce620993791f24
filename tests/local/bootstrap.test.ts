/** bootstrap.mjs, the entry of every command, in a project of its own that needs no network. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";

const root = mkdtempSync(join(tmpdir(), "local-bootstrap-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Bun of this run first on PATH, so that nothing is downloaded; bootstrap.mjs itself runs under Node when there is one. */
const PATH = [dirname(process.execPath), process.env.PATH ?? ""].join(delimiter);
const NODE = Bun.which("node") ?? process.execPath;

beforeEach(async () => {
  rmSync(root, { recursive: true, force: true });
  mkdirSync(join(root, "local"), { recursive: true });
  copyFileSync(join(import.meta.dir, "../../bootstrap.mjs"), join(root, "bootstrap.mjs"));
  mkdirSync(join(root, "packages/greeting"), { recursive: true });
  writeFileSync(join(root, "packages/greeting/package.json"), '{ "name": "greeting", "version": "1.0.0" }');
  writeFileSync(join(root, "packages/greeting/index.js"), 'export const greeting = "hello";');
  writeFileSync(
    join(root, "package.json"),
    '{ "name": "tried", "dependencies": { "greeting": "file:./packages/greeting" } }',
  );
  await Bun.$`${process.execPath} install --lockfile-only`.cwd(root).quiet();
  writeFileSync(
    join(root, "local/say.ts"),
    `import { greeting } from "greeting";
     console.log(greeting, Bun.version, ...process.argv.slice(2));
     process.exit(7);`,
  );
});

function bootstrap(...args: string[]) {
  const env = { ...process.env, PATH, npm_lifecycle_event: undefined };
  const child = Bun.spawn([NODE, "bootstrap.mjs", ...args], {
    cwd: root,
    env,
    stdout: "pipe",
    stderr: "pipe",
  });
  const said = new Response(child.stdout).text();
  const progress = new Response(child.stderr).text();
  return { child, said, progress };
}

test("installs what the lock file names, runs the script, and exits with its code", async () => {
  const { child, said, progress } = bootstrap("local/say.ts", "one", "two words");
  expect(await child.exited).toBe(7);
  expect(await said).toBe(`hello ${Bun.version} one two words\n`);
  expect(await progress).toContain("installing packages");
});

test("error: a folder that is not writable is reported in one sentence, without a stack trace", async () => {
  // also refused to root, whom permissions do not stop
  writeFileSync(join(root, ".tools"), "");
  const { child, progress } = bootstrap("local/say.ts");
  expect(await child.exited).toBe(1);
  expect(await progress).toMatch(
    /^Packages cannot be installed in .*: E[A-Z]+: .*\. This user must be able to write there\.\n$/,
  );
});

test("a second run installs nothing; a changed lock file does", async () => {
  await bootstrap("local/say.ts").child.exited;
  expect(await bootstrap("local/say.ts").progress).toBe("");
  const lock = join(root, "bun.lock");
  writeFileSync(lock, `${readFileSync(lock, "utf8")}\n`);
  expect(await bootstrap("local/say.ts").progress).toContain("installing packages");
});

test("a changed patch of a package installs again", async () => {
  const patch = join(root, "patches/greeting@1.0.0.patch");
  mkdirSync(dirname(patch));
  writeFileSync(patch, "one");
  await bootstrap("local/say.ts").child.exited;
  expect(await bootstrap("local/say.ts").progress).toBe("");
  writeFileSync(patch, "another");
  expect(await bootstrap("local/say.ts").progress).toContain("installing packages");
});

test("an installation with test packages also serves runs without them, but not vice versa", async () => {
  await bootstrap("--dev", "local/say.ts").child.exited;
  expect(await bootstrap("local/say.ts").progress).toBe("");
  rmSync(join(root, "node_modules"), { recursive: true });
  await bootstrap("local/say.ts").child.exited;
  expect(await bootstrap("--dev", "local/say.ts").progress).toContain("with those for tests");
});

test("repeats an installation that was killed midway", async () => {
  await bootstrap("local/say.ts").child.exited;
  // As after kill -9: begun, and with a package that looks complete but is not.
  writeFileSync(join(root, ".tools/unfinished"), "");
  rmSync(join(root, "node_modules/greeting/index.js"));
  const { child, said } = bootstrap("local/say.ts");
  expect(await child.exited).toBe(7);
  expect(await said).toContain("hello");
  expect(existsSync(join(root, ".tools/unfinished"))).toBe(false);
});

test("concurrent starts install one after the other and all run", async () => {
  const runs = [1, 2, 3].map((number) => bootstrap("local/say.ts", String(number)));
  const said = await Promise.all(runs.map((run) => run.said));
  expect(said).toEqual([1, 2, 3].map((number) => `hello ${Bun.version} ${number}\n`));
  expect(existsSync(join(root, ".tools/lock"))).toBe(false);
});

test("forwards a signal and waits for the script's exit", async () => {
  writeFileSync(
    join(root, "local/wait.ts"),
    `process.on("SIGTERM", () => setTimeout(() => process.exit(5), 100));
     setInterval(() => {}, 1000);
     console.log("up");`,
  );
  const env = { ...process.env, PATH };
  await bootstrap("local/say.ts").child.exited;
  const child = Bun.spawn([NODE, "bootstrap.mjs", "local/wait.ts"], { cwd: root, env, stdout: "pipe" });
  await child.stdout.getReader().read();
  child.kill("SIGTERM");
  expect(await child.exited).toBe(5);
});

test("error: no script named", async () => {
  const { child, progress } = bootstrap();
  expect(await child.exited).toBe(1);
  expect(await progress).toContain("Usage: node bootstrap.mjs");
});
