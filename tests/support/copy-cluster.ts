/** The files of a stopped Postgres, copied into the folder of another one. */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { findPostgresBinaries } from "../../local/postgres/binaries.ts";
import { choosePostgresAccount } from "../../local/postgres/unprivileged-user.ts";

/** Copies the folder of a stopped server, owners included. */
export function copyCluster(fromDir: string, toDir: string): void {
  mkdirSync(toDir, { recursive: true });
  const [from, to] = [rootOf(fromDir), rootOf(toDir)];
  mkdirSync(to, { recursive: true });
  for (const [source, target] of [
    [join(from, "data"), join(to, "data")],
    [join(fromDir, "password"), join(toDir, "password")],
  ] as const) {
    const { status, stderr } = spawnSync("cp", ["-a", source, target], { encoding: "utf8" });
    if (status !== 0) throw new Error(`${source} could not be copied: ${stderr}`);
  }
}

/** Where a server's files really are: elsewhere when its account cannot reach the folder. */
export function rootOf(dataDir: string): string {
  return choosePostgresAccount({
    nativeDir: findPostgresBinaries(),
    clusterRoot: join(dataDir, "cluster"),
  }).clusterRoot;
}
