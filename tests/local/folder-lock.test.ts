import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lockFolder } from "../../local/processes/folder-lock.ts";

const folder = mkdtempSync(join(tmpdir(), "folder-lock-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** In a process of its own: nothing refers to the lock once this has returned. */
async function lockAndCollect(): Promise<Bun.Subprocess<"ignore", "pipe", "inherit">> {
  const script = `
    const { lockFolder } = await import(${JSON.stringify(join(import.meta.dir, "../../local/processes/folder-lock.ts"))});
    const lock = () => { lockFolder(${JSON.stringify(folder)}); };
    lock();
    await Bun.sleep(1);
    for (let round = 0; round < 5; round++) Bun.gc(true);
    console.log("collected");
    setInterval(() => {}, 1000);`;
  const owner = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  await owner.stdout.getReader().read();
  return owner;
}

test("a lock is held as long as its owner lives, even when nothing refers to it any more", async () => {
  const owner = await lockAndCollect();
  try {
    expect(() => lockFolder(folder)).toThrow(`is in use by process ${owner.pid}`);
  } finally {
    owner.kill("SIGKILL");
    await owner.exited;
  }
  lockFolder(folder).release();
});

test("a folder has one owner, which is named when a second one is refused", () => {
  const place = join(folder, "own");
  const lock = lockFolder(place);
  expect(() => lockFolder(place)).toThrow(`${place} is in use by process ${process.pid}`);
  lock.release();
  lockFolder(place).release();
});
