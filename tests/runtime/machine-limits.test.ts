/** The limits of a machine, just inside and just outside. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { Registry } from "prom-client";
import { judgeDisk } from "../../api/health/checks.ts";
import {
  inspectMachine,
  isNearlyFull,
  openFilesRisk,
  readDiskSpace,
} from "../../core/runtime/machine-limits.ts";
import { openDiskMetrics } from "../../core/runtime/metrics.ts";

/** Linux has it. */
const LIMITS = "/proc/self/limits";
const limits = (soft: string) =>
  `Limit                     Soft Limit           Hard Limit           Units     \nMax open files            ${soft}                 1048576              files     \n`;

describe("open files", () => {
  test("8,192 and unlimited are enough, one less is a risk reported with the figure", () => {
    expect(openFilesRisk(limits("8192"))).toBeUndefined();
    expect(openFilesRisk(limits("unlimited"))).toBeUndefined();
    expect(openFilesRisk(limits("8191"))).toContain("at most 8191 files");
    expect(openFilesRisk(undefined)).toBeUndefined();
  });
});

test("a machine's risks are those of its open files and its disk; of a disk that it does not have there is none", () => {
  const files = openFilesRisk(existsSync(LIMITS) ? readFileSync(LIMITS, "utf8") : undefined);
  const own = files === undefined ? [] : [files];
  expect(inspectMachine("/no/such/folder")).toStrictEqual(own);
  const space = readDiskSpace("/");
  const disk = space && isNearlyFull(space) ? [expect.stringContaining("the disk of / is nearly full")] : [];
  expect(inspectMachine("/")).toStrictEqual([...own, ...disk]);
});

describe("disk", () => {
  const gb = 1e9;
  test("5 % of a large disk and 1 GB of a small one are enough, a byte less is nearly full", () => {
    expect(isNearlyFull({ totalBytes: 100 * gb, freeBytes: 5 * gb })).toBe(false);
    expect(isNearlyFull({ totalBytes: 100 * gb, freeBytes: 5 * gb - 1 })).toBe(true);
    expect(isNearlyFull({ totalBytes: 10 * gb, freeBytes: gb })).toBe(false);
    expect(isNearlyFull({ totalBytes: 10 * gb, freeBytes: gb - 1 })).toBe(true);
  });

  test("health reports a nearly full disk with its figures, and one byte more as healthy", () => {
    const full = { totalBytes: 10 * gb, freeBytes: gb - 1 };
    expect(judgeDisk(full)).toEqual({
      ...{
        status: "unhealthy",
        error: "the disk is nearly full: 1.0 GB free of 10.0 GB (9 %)",
        details: full,
      },
    });
    expect(judgeDisk({ ...full, freeBytes: gb }).status).toBe("healthy");
    expect(judgeDisk(undefined)).toEqual({ status: "healthy" });
  });

  test("a missing folder has no space, an existing one has no more than its disk", () => {
    expect(readDiskSpace("/no/such/folder")).toBeUndefined();
    const space = readDiskSpace("/");
    expect(space?.totalBytes).toBeGreaterThanOrEqual(space?.freeBytes ?? Number.POSITIVE_INFINITY);
  });

  test("the gauges of a disk whose space the system does not give are absent, not 0", async () => {
    const scrape = async (folder: string) => {
      const registry = new Registry();
      openDiskMetrics(registry, folder);
      return (await registry.metrics()).split("\n").filter((line) => line.startsWith("machine_disk_"));
    };
    expect(await scrape("/no/such/folder")).toEqual([]);
    const lines = await scrape("/");
    expect(lines.map((line) => line.split(" ")[0])).toEqual([
      "machine_disk_total_bytes",
      "machine_disk_free_bytes",
    ]);
    expect(Number(lines[0]?.split(" ")[1])).toBeGreaterThan(0);
  });
});
