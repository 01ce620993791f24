/** Variables given as files: what a file may hold, and what is said of one that cannot be used. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readFileVariables } from "../../core/runtime/file-variables.ts";

const folder = mkdtempSync(join(tmpdir(), "test-file-variables-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(name: string, content: string | Uint8Array): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

const read = (path: string) => {
  const { values, faults, broken } = readFileVariables(["SECRET"], { SECRET_FILE: path });
  return { value: values.SECRET, faults, isBroken: broken.has("SECRET") };
};

test("a file's value is read without the line ends after it", () => {
  for (const end of ["", "\n", "\r\n", "\n\n", "\r\n\r\n"])
    expect(read(write("ends", `one,two${end}`))).toEqual({ value: "one,two", faults: [], isBroken: false });
});

test("a value of 64 KiB is read", () => {
  expect(read(write("long", "x".repeat(65_536))).value).toHaveLength(65_536);
});

test("error: a file without an end is refused, and read no further than its limit", () => {
  const before = process.memoryUsage.rss();
  expect(read("/dev/zero")).toEqual({
    value: undefined,
    faults: ["SECRET_FILE: /dev/zero has more than 65536 bytes; use a file that holds only the value"],
    isBroken: true,
  });
  expect(process.memoryUsage.rss() - before).toBeLessThan(50_000_000);
});

test("error: a file of more than 64 KiB is refused", () => {
  const file = write("longer", "x".repeat(65_537));
  expect(read(file).faults).toEqual([
    `SECRET_FILE: ${file} has more than 65536 bytes; use a file that holds only the value`,
  ]);
});

test("error: a folder is refused", () => {
  expect(read(folder).faults).toEqual([`SECRET_FILE: ${folder} cannot be read (it is a folder)`]);
});

test("error: bytes that are not text are refused, since some of them would be lost", () => {
  const file = write("binary", new Uint8Array([0xff, 0xfe, 0x80, 0x41]));
  expect(read(file).faults).toEqual([
    `SECRET_FILE: ${file} is not text; write the bytes as hex (openssl rand -hex 32)`,
  ]);
});

test("error: a secret that was given in place of its file's path is not repeated", () => {
  for (const secret of [`0x${"ab12".repeat(16)}`, "x".repeat(5_000), "postgres://user:password@host/name"]) {
    const { faults, isBroken } = read(secret);
    expect({ faults, isBroken }).toEqual({
      faults: [
        "SECRET_FILE: is not the path of a file; give a path, or set the variable without _FILE to the value itself",
      ],
      isBroken: true,
    });
  }
});

test("error: a path that cannot name a file is refused with a readable message", () => {
  expect(read(join(folder, "x".repeat(300))).faults).toEqual([
    expect.stringMatching(/^SECRET_FILE: .* cannot be read \(ENAMETOOLONG\)$/),
  ]);
  expect(read(`${folder}/a\0b`).isBroken).toBe(true);
});
