/** Encrypted backups: any size comes back, and nothing that was changed, reordered or cut does. */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { sortByReferences } from "../../db/backup/tables.ts";
import { parseInterval } from "../../ops/backup/configuration.ts";
import { openStream, sealStream } from "../../ops/backup/seal-stream.ts";

const CHUNK = 64 * 1024;
const SEALED = CHUNK + 16;
const HEAD = 40;
const [key, other] = [randomBytes(32).toString("hex"), randomBytes(32).toString("hex")];

async function* pieces(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function collect(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

const seal = (plain: Uint8Array, size = 10_000) => collect(sealStream(pieces(plain, size), key));
const open = (sealed: Uint8Array, keys = [key], size = 7_777) =>
  collect(openStream(pieces(sealed, size), keys));

test.each([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5])(
  "%i bytes come back",
  async (size) => {
    const plain = randomBytes(size as number);
    const sealed = await seal(plain);
    expect((await open(sealed)).equals(plain)).toBe(true);
    expect((await open(sealed, [other, key], 1_000_000)).equals(plain)).toBe(true);
    if (plain.length > 16) expect(sealed.includes(plain.subarray(0, 16))).toBe(false);
  },
);

describe("error:", () => {
  const plain = randomBytes(3 * CHUNK);

  test("a wrong key opens nothing, and the message names the variable of the key", async () => {
    await expect(open(await seal(plain), [other])).rejects.toThrow(
      "no key in BACKUP_KEY decrypts this backup",
    );
  });

  test("a flipped bit in any chunk is refused", async () => {
    const sealed = await seal(plain);
    for (const at of [HEAD, HEAD + SEALED, sealed.length - 1]) {
      const changed = Buffer.from(sealed);
      changed[at] = (changed[at] ?? 0) ^ 1;
      await expect(open(changed)).rejects.toThrow(/altered/);
    }
  });

  test("a file truncated within or between chunks is refused, and so are swapped chunks", async () => {
    const sealed = await seal(plain);
    for (const end of [HEAD + 2 * SEALED, HEAD + SEALED, sealed.length - 1, HEAD])
      await expect(open(sealed.subarray(0, end))).rejects.toThrow(/altered|incomplete/);
    const [head, first, second, rest] = [
      sealed.subarray(0, HEAD),
      sealed.subarray(HEAD, HEAD + SEALED),
      sealed.subarray(HEAD + SEALED, HEAD + 2 * SEALED),
      sealed.subarray(HEAD + 2 * SEALED),
    ];
    await expect(open(Buffer.concat([head, second, first, rest]))).rejects.toThrow(/altered/);
  });

  test("another kind of file is refused", async () => {
    await expect(open(randomBytes(CHUNK))).rejects.toThrow("this is not a backup of this service");
    await expect(open(Buffer.from("short"))).rejects.toThrow("empty or incomplete");
  });
});

test("tables are filled after those they reference, and a cycle is refused", () => {
  const table = (name: string) => ({ name, columns: ["id"] });
  const tables = [table("child"), table("grandchild"), table("parent")];
  const references = [
    { child: "child", parent: "parent" },
    { child: "grandchild", parent: "child" },
  ];
  const sorted = sortByReferences(tables, references).map(({ name }) => name);
  expect(sorted).toEqual(["parent", "child", "grandchild"]);
  const circle = [...references, { child: "parent", parent: "grandchild" }];
  expect(() => sortByReferences(tables, circle)).toThrow("in a cycle");
});

test("an interval is whole minutes, hours or days", () => {
  expect(["30m", "6h", "1d"].map(parseInterval)).toEqual([1_800_000, 21_600_000, 86_400_000]);
  expect(parseInterval("24d")).toBe(2_073_600_000);
  // a timer holds 31 bits: it would fire at once, and write one backup after the other
  expect(["25d", "597h", "99999h"].map(parseInterval)).toEqual(Array(3).fill(undefined));
  expect(["0h", "6", "h", "1.5h", "6H", "999999m"].map(parseInterval)).toEqual(Array(6).fill(undefined));
});
