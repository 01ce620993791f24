import { afterAll, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres from "postgres";
import { findPostgresBinaries } from "../../local/postgres/binaries.ts";
import { startPostgres } from "../../local/postgres/postgres.ts";
import { choosePostgresAccount } from "../../local/postgres/unprivileged-user.ts";

const dataDir = mkdtempSync(join(tmpdir(), "local-postgres-"));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

async function query<Row>(url: string, text: string): Promise<Row[]> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    return (await sql.unsafe(text)) as unknown as Row[];
  } finally {
    await sql.end();
  }
}

/** Another process that starts Postgres in the same folder, reports it and waits to be killed. */
async function startHolder() {
  const script = `
    const { startPostgres } = await import(${JSON.stringify(join(import.meta.dir, "../../local/postgres/postgres.ts"))});
    const server = await startPostgres({ dataDir: ${JSON.stringify(dataDir)}, database: "kept" });
    console.log(server.url);
    setInterval(() => {}, 1000);`;
  const holder = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  const first = await holder.stdout.getReader().read();
  return { holder, url: new TextDecoder().decode(first.value).trim() };
}

test("keeps data, password and port between starts", async () => {
  const first = await startPostgres({ dataDir, database: "kept" });
  await query(
    first.url,
    "create table notes (text text); insert into notes values ('written before the stop')",
  );
  await first.stop();
  const second = await startPostgres({ dataDir, database: "kept" });
  expect(second.url).toBe(first.url);
  expect(await query<{ text: string }>(second.url, "select text from notes")).toEqual([
    { text: "written before the stop" },
  ]);
  await second.stop();
});

test("knows letters of every script, as the search index needs them", async () => {
  const server = await startPostgres({ dataDir, database: "kept" });
  await query(server.url, "create extension if not exists pg_trgm");
  for (const word of ["Привет", "café", "東京都"]) {
    const [row] = await query<{ parts: string[] }>(server.url, `select show_trgm('${word}') as parts`);
    expect(row?.parts).toHaveLength(word.length + 1);
  }
  await server.stop();
});

test("refuses a folder held by a live process, and names the process", async () => {
  const { holder, url } = await startHolder();
  await query(url, "insert into notes values ('written by another process')");
  await expect(startPostgres({ dataDir })).rejects.toThrow(`is in use by process ${holder.pid}`);
  holder.kill("SIGKILL");
  await holder.exited;
});

test("recovers after its owner was killed with SIGKILL, while the orphaned server is still shutting down", async () => {
  const { holder, url } = await startHolder();
  await query(url, "insert into notes values ('committed before the kill')");
  holder.kill("SIGKILL");
  await holder.exited;
  const again = await startPostgres({ dataDir, database: "kept" });
  const rows = await query<{ text: string }>(again.url, "select text from notes order by text");
  expect(rows.map((row) => row.text)).toEqual([
    "committed before the kill",
    "written before the stop",
    "written by another process",
  ]);
  await again.stop();
});

test("recovers after Postgres itself and its owner were killed with SIGKILL", async () => {
  const { holder } = await startHolder();
  const pidFile = await Bun.file(join(dataDir, "cluster/data/postmaster.pid")).text();
  process.kill(Number(pidFile.split("\n")[0]), "SIGKILL");
  holder.kill("SIGKILL");
  await holder.exited;
  const again = await startPostgres({ dataDir, database: "kept" });
  expect(await query<{ n: number }>(again.url, "select count(*)::int n from notes")).toEqual([{ n: 3 }]);
  await again.stop();
});

test("starts although the ended server of postmaster.pid is never reaped", async () => {
  const clusterRoot = join(dataDir, "cluster");
  const { uid, gid } = choosePostgresAccount({ nativeDir: findPostgresBinaries(), clusterRoot });
  const data = join(clusterRoot, "data");
  // named like a server on this data; what its parent becomes does not wait for it
  const script = `tail -f '${data}/PG_VERSION' >/dev/null & echo $!; exec sleep 300`;
  const parent = spawn("sh", ["-c", script], { cwd: "/", ...(uid === undefined ? {} : { uid, gid }) });
  const [output] = await once(parent.stdout, "data");
  const ended = Number(output);
  writeFileSync(join(data, "postmaster.pid"), `${ended}\n`);
  const starting = startPostgres({ dataDir, database: "kept" });
  // it still runs when it is found, and is a zombie a moment later
  await Bun.sleep(200);
  process.kill(ended, "SIGKILL");
  const server = await starting;
  expect(await query<{ n: number }>(server.url, "select count(*)::int n from notes")).toEqual([{ n: 3 }]);
  await server.stop();
  parent.kill("SIGKILL");
});

test("leaves no server behind when its owner is killed with SIGKILL", async () => {
  const { holder, url } = await startHolder();
  holder.kill("SIGKILL");
  await holder.exited;
  const deadline = Date.now() + 45_000;
  const answers = () =>
    query(url, "select 1").then(
      () => true,
      () => false,
    );
  while (await answers()) {
    if (Date.now() > deadline) throw new Error("Postgres still answers long after its owner was killed");
    await Bun.sleep(50);
  }
  // Waits for the end of its shutdown, so that the folder can be removed.
  await (await startPostgres({ dataDir })).stop();
});
