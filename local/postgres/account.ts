/** Postgres refuses to run as root. This finds the way to run it as somebody else that works on this machine. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chownSync, cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

/** The `nobody` account: it has an entry in every passwd file, which Postgres insists on. */
const NOBODY = 65_534;
/** A place every account can reach and that survives a reboot, for projects under /root. */
const SHARED_ROOT = "/var/tmp";

export type PostgresAccount = {
  /** Put in front of the program. */
  prefix: readonly string[];
  uid?: number;
  gid?: number;
  nativeDir: string;
  clusterRoot: string;
};

/**
 * Not root: as ourselves. Root: inside a user namespace where we are called nobody, so the files stay ours; where
 * namespaces are forbidden (containers), really as nobody, with programs and data where that account can reach them.
 */
export function choosePostgresAccount(places: { nativeDir: string; clusterRoot: string }): PostgresAccount {
  if (process.getuid?.() !== 0) return { prefix: [], ...places };
  const prefix = ["unshare", "-U", `--map-user=${NOBODY}`, `--map-group=${NOBODY}`];
  const wantsUid = process.env.LOCAL_POSTGRES_ACCOUNT === "uid" || isNobodysCluster(places.clusterRoot);
  if (!wantsUid && runs([...prefix, "true"])) return { prefix, ...places };
  return { prefix: [], uid: NOBODY, gid: NOBODY, ...moveWithinReach(places) };
}

/** A cluster stays with the account that made it, also when a later start could do otherwise. */
function isNobodysCluster(clusterRoot: string): boolean {
  if (existsSync(join(sharedFolderOf(clusterRoot), "cluster", "data"))) return true;
  return statSync(join(clusterRoot, "data"), { throwIfNoEntry: false })?.uid === NOBODY;
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
  chownSync(clusterRoot, NOBODY, NOBODY);
  return { nativeDir, clusterRoot };
}

/** Copies into a folder of its own first: an interrupted copy is never taken for a whole one. */
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
  return spawnSync("ls", [folder], { uid: NOBODY, gid: NOBODY, stdio: "ignore" }).status === 0;
}

function runs([command = "", ...args]: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}
