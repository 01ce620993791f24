/**
 * Runs a script of this project with Bun on a machine that has only Node and npm, or only Bun:
 *
 *   node bootstrap.mjs [--dev] <script.ts> [args]
 *
 * Finds Bun, or installs it in the project (.tools/); installs the packages when they do not match bun.lock;
 * then runs the script with the same terminal, signals and exit code. --dev also installs development packages.
 */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { constants } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const BUN_VERSION = "1.4.5";
/** Expected sha512 (npm integrity) of each build's package of this version; other bytes are not installed. */
const BUN_BUILDS = [
  {
    ...{ name: "@oven/bun-linux-x64", os: "linux", cpu: "x64", libc: "glibc" },
    integrity:
      "sha512-IWX9BELoGHAUtMonkeSaNaZwXzRk+oDw6Mk+HBFXd3KHYIBNBsIGRupMZPcgNoDbJpLu6gAJjIoIVPZtt1aJ1g==",
  },
  {
    ...{ name: "@oven/bun-linux-x64-musl", os: "linux", cpu: "x64", libc: "musl" },
    integrity:
      "sha512-10QoW/YfTgnURaGEaHpJCiXjLI2e5iTtfVDaA5JKcyUzaa1cq6cVUY9/Uq5XkYzvtRjHLRe9Oj/lTDIQcxy8HQ==",
  },
  {
    ...{ name: "@oven/bun-linux-aarch64", os: "linux", cpu: "arm64", libc: "glibc" },
    integrity:
      "sha512-4BXmsSKnjOrlGWqZV4x/oWa7AVoR+B6lCXddMzOAXBIm3t50eslg9wb66gmtW1AamEQ1l1CDvmmruysEhqOWMg==",
  },
  {
    ...{ name: "@oven/bun-linux-aarch64-musl", os: "linux", cpu: "arm64", libc: "musl" },
    integrity:
      "sha512-XCNc+WvvMAdNNb+OWTogpy+N9wm62fkVeEVLb6how0RZhW5LPi6c7BlkeVCuWps7XjEl2saFpHFa20/1E+PAHg==",
  },
  {
    ...{ name: "@oven/bun-darwin-x64", os: "darwin", cpu: "x64" },
    integrity:
      "sha512-qkLPMGHZM9NI6CeHTWwVezzmlo6cC4Ta7yUAjYIWXS366qQcOlcp75t2uZyiuVRBMPS0h9qE0tCcvCHGaFqjJg==",
  },
  {
    ...{ name: "@oven/bun-darwin-aarch64", os: "darwin", cpu: "arm64" },
    integrity:
      "sha512-4MIFXHmctH2EhAxLXm2/qxNtv17dFtLJylvaOCsrgq6KSqHTs6eW5YSrJjRbJxYUJaR901fsN8JfZOa+CsWpWQ==",
  },
];
const ROOT = dirname(fileURLToPath(import.meta.url));
const TOOLS = join(ROOT, ".tools");
const PACKAGES = join(ROOT, "node_modules");
const PATCHES = join(ROOT, "patches");
const STAMP = join(PACKAGES, ".installed");
/** Exists while an installation is in progress or was interrupted. */
const UNFINISHED = join(TOOLS, "unfinished");
const LOCK = join(TOOLS, "lock");
const LOCK_TOUCH_MS = 1_000;
/** The holder touches its lock every second; a lock this old belongs to a dead process. */
const LOCK_STALE_MS = 10_000;
const LOCK_WAIT_MS = 15 * 60_000;
const LOCK_POLL_MS = 300;
const PARENT_POLL_MS = 1_000;

try {
  await main();
} catch (error) {
  if (error.syscall === undefined) throw error;
  fail(`Packages cannot be installed in ${ROOT}: ${error.message}. This user must be able to write there.`);
}

async function main() {
  const args = process.argv.slice(2);
  const isDev = args[0] === "--dev";
  if (isDev) args.shift();
  const [script, ...rest] = args;
  if (!script) fail("Usage: node bootstrap.mjs [--dev] <script.ts> [args]");
  // The common case, everything installed, costs a few milliseconds and no lock.
  const bun = isInstalled(isDev) ? findBun() : undefined;
  run(bun ?? (await withLock(() => prepare(isDev))), script, rest);
}

/** Another process may have installed while we waited for the lock, so every step checks first. */
async function prepare(isDev) {
  const bun = findBun() ?? (await installBun());
  if (!isInstalled(isDev)) await installPackages(bun, isDev);
  return bun;
}

function findBun() {
  if (process.versions.bun === BUN_VERSION) return process.execPath;
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const onPath = folders.map((folder) => join(folder, "bun")).filter((file) => !file.startsWith(PACKAGES));
  return [...toolCandidates(), ...onPath].find(isRightBun);
}

/** npm may install several builds for one platform when it does not know the C library; the first that runs is used. */
function toolCandidates() {
  const scope = join(TOOLS, "node_modules", "@oven");
  const builds = existsSync(scope) ? readdirSync(scope).sort() : [];
  return builds.map((build) => join(scope, build, "bin", "bun"));
}

function isRightBun(file) {
  if (!existsSync(file)) return false;
  const { status, stdout } = spawnSync(file, ["--version"], { encoding: "utf8" });
  return status === 0 && stdout.trim() === BUN_VERSION;
}

/** From a lock file of our own, so that npm checks our integrity before it unpacks anything. No install script runs. */
async function installBun() {
  say(`installing Bun ${BUN_VERSION} into .tools`);
  writeBunLock();
  const flags = [
    "--ignore-scripts",
    "--include=optional",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--no-update-notifier",
  ];
  // first removes what an earlier version has installed there
  const code = await finish("npm", ["ci", "--prefix", TOOLS, ...flags]);
  const bun = toolCandidates().find(isRightBun);
  if (!bun)
    fail(
      `Bun ${BUN_VERSION} could not be installed with npm (${code}), or its package is not the one this project was made with. Install it by hand and start again.`,
    );
  return bun;
}

/** An npm project in .tools, without a registry URL: that is npm's own setting. */
function writeBunLock() {
  const root = {
    name: "tools",
    version: "1.0.0",
    private: true,
    optionalDependencies: Object.fromEntries(BUN_BUILDS.map(({ name }) => [name, BUN_VERSION])),
  };
  const packages = BUN_BUILDS.map(({ name, os, cpu, libc, integrity }) => [
    `node_modules/${name}`,
    {
      ...{ version: BUN_VERSION, integrity, optional: true, os: [os], cpu: [cpu] },
      ...(libc ? { libc: [libc] } : {}),
    },
  ]);
  const lock = {
    ...{ name: root.name, version: root.version, lockfileVersion: 3, requires: true },
    packages: { "": root, ...Object.fromEntries(packages) },
  };
  writeFileSync(join(TOOLS, "package.json"), JSON.stringify(root, null, 2));
  writeFileSync(join(TOOLS, "package-lock.json"), JSON.stringify(lock, null, 2));
}

async function installPackages(bun, isDev) {
  say(isDev ? "installing packages, with those for tests" : "installing packages");
  // An interrupted installation may look complete.
  if (existsSync(UNFINISHED)) rmSync(PACKAGES, { recursive: true, force: true });
  rmSync(STAMP, { force: true });
  writeFileSync(UNFINISHED, "");
  const mode = isDev ? [] : ["--production"];
  const code = await finish(bun, ["install", "--frozen-lockfile", "--ignore-scripts", "--silent", ...mode]);
  if (code !== 0) fail(`The packages could not be installed (${code}).`);
  // A full installation also serves a production run.
  writeFileSync(`${STAMP}.new`, isDev ? `${stampOf(true)}\n${stampOf(false)}` : stampOf(false));
  renameSync(`${STAMP}.new`, STAMP);
  rmSync(UNFINISHED);
}

function isInstalled(isDev) {
  if (existsSync(UNFINISHED) || !existsSync(STAMP)) return false;
  return readFileSync(STAMP, "utf8").split("\n").includes(stampOf(isDev));
}

function stampOf(isDev) {
  const mode = isDev ? "development" : "production";
  const hash = createHash("sha256").update(`${mode} ${process.platform} ${process.arch} `);
  // The lock file names the patches, but not their contents.
  const patches = existsSync(PATCHES) ? readdirSync(PATCHES).sort() : [];
  for (const file of [join(ROOT, "bun.lock"), ...patches.map((name) => join(PATCHES, name))])
    hash.update(readFileSync(file));
  return hash.digest("hex");
}

/** Runs a command to its end; returns its exit code, or the reason why there is none. */
function finish(command, args) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ["ignore", "ignore", "inherit"], cwd: ROOT, env: ownEnv() });
    child.on("error", (error) => resolve(error.message));
    child.on("exit", (code, signal) => resolve(code ?? signal));
  });
}

/** `npm start` passes its settings down as variables. The registry setting is meant for us too; where and what to install is not. */
function ownEnv() {
  const notMeant =
    /^npm_config_(prefix|local_prefix|global|omit|include|production|dry_run|package_lock.*|workspaces?)$/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !notMeant.test(name)));
}

/** One installation at a time: a lock folder is created atomically, or exists already. */
async function withLock(work) {
  mkdirSync(TOOLS, { recursive: true });
  const deadline = Date.now() + LOCK_WAIT_MS;
  for (let isTold = false; !takeLock(); isTold = true) {
    if (!isTold) say("waiting for another installation to finish");
    if (Date.now() > deadline)
      fail(`Another installation does not finish. If none is running, remove ${LOCK}.`);
    await new Promise((resolve) => setTimeout(resolve, LOCK_POLL_MS));
  }
  const touching = setInterval(() => utimesSync(LOCK, new Date(), new Date()), LOCK_TOUCH_MS);
  const release = () => rmSync(LOCK, { recursive: true, force: true });
  process.once("exit", release);
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));
  try {
    return await work();
  } finally {
    clearInterval(touching);
    for (const signal of ["SIGINT", "SIGTERM"]) process.removeAllListeners(signal);
    process.removeListener("exit", release);
    release();
  }
}

function takeLock() {
  try {
    mkdirSync(LOCK);
    return true;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
  try {
    if (Date.now() - statSync(LOCK).mtimeMs < LOCK_STALE_MS) return false;
    // Renamed first: of several processes that find it stale, one succeeds.
    renameSync(LOCK, `${LOCK}.${process.pid}`);
    rmSync(`${LOCK}.${process.pid}`, { recursive: true, force: true });
  } catch {
    // Already removed, by its holder or by a faster process.
  }
  return false;
}

/** Passes signals between the terminal and the script, and exits with it. */
function run(bun, script, args) {
  const path = [dirname(bun), join(PACKAGES, ".bin"), process.env.PATH ?? ""].join(delimiter);
  // before the script can run: a signal without a handler would end us and leave the script behind
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  const child = spawn(bun, [join(ROOT, script), ...args], {
    stdio: "inherit",
    cwd: ROOT,
    env: { ...process.env, PATH: path },
  });
  // npm, or the shell between npm and us, may end without forwarding a signal; the script must not outlive them.
  const ancestors = readAncestors();
  if (process.env.npm_lifecycle_event) {
    setInterval(() => readAncestors() === ancestors || child.kill("SIGTERM"), PARENT_POLL_MS).unref();
  }
  child.on("error", (error) => fail(`Bun could not be started: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}

/** Our parent's id and, where available, its parent's. */
function readAncestors() {
  try {
    const stat = readFileSync(`/proc/${process.ppid}/stat`, "utf8");
    return `${process.ppid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]}`;
  } catch {
    return String(process.ppid);
  }
}

function say(text) {
  console.error(`· ${text} …`);
}

function fail(text) {
  console.error(text);
  process.exit(1);
}
