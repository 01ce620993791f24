/** The notices of what is shipped: every font with its own copyright line, and the whole text of its licence. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const { dependencies } = JSON.parse(read("package.json")) as { dependencies: Record<string, string> };
const fonts = Object.keys(dependencies).filter((name) => name.startsWith("@fontsource"));
const notice = read("NOTICE");

test("there are fonts to name", () => {
  expect(fonts.length).toBeGreaterThan(15);
});

for (const name of fonts) {
  test(`${name} is in NOTICE with the copyright line of its licence, which is the OFL of licenses/`, () => {
    const [copyright = "", ...rest] = read(`node_modules/${name}/LICENSE`).split("\n");
    expect(notice).toContain(`${name}\n    ${copyright.trim()}\n`);
    expect(rest.join("\n").trim()).toEndWith(read("licenses/OFL-1.1.txt").trim());
  });
}

test("NOTICE names no font that is not shipped", () => {
  const named = [...notice.matchAll(/^@fontsource\S*$/gm)].map(([name]) => name);
  expect(named.sort()).toEqual([...fonts].sort());
});

test("DejaVu is in NOTICE, and its licence is the one of licenses/", () => {
  expect(dependencies).toHaveProperty("dejavu-fonts-ttf");
  expect(notice).toContain("\ndejavu-fonts-ttf\n    Copyright (c) 2003 by Bitstream, Inc.");
  expect(read("licenses/DejaVu.txt")).toBe(read("node_modules/dejavu-fonts-ttf/LICENSE"));
});
