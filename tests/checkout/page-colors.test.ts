/** A merchant's colour as pages use it: readable by day and by night, and left alone where it is already. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { contrast, pageColors } from "../../core/domain/page-colors.ts";

/** Unreadable on white. */
const YELLOW = "#ffe600";

describe("colours", () => {
  const tokens = readFileSync(join(import.meta.dir, "../../web/design/tokens.css")).toString();
  const [day = "", night = ""] = tokens.split("@media");
  const tokenOf = (css: string, name: string) =>
    new RegExp(`--${name}: (#[0-9a-f]{6});`).exec(css)?.[1] ?? "";

  test("of every hue and lightness are readable on and under everything, in light and dark mode", () => {
    const parts = ["00", "33", "66", "99", "cc", "ff"];
    const colors = parts.flatMap((r) => parts.flatMap((g) => parts.map((b) => `#${r}${g}${b}`)));
    for (const [scheme, css] of [
      ["light", day],
      ["dark", night],
    ] as const)
      for (const color of colors) {
        const { accent, hover, soft, ink } = pageColors(color, scheme);
        const pairs = [tokenOf(css, "surface"), tokenOf(css, "bg"), soft, ink].map((paper) => [
          accent,
          paper,
        ]);
        for (const [one = "", other = ""] of [...pairs, [hover, ink]])
          expect(`${scheme} ${color}: ${one} on ${other} ${contrast(one, other) >= 4.5}`).toEndWith("true");
      }
  });

  test("that are already readable are not changed", () => {
    expect(pageColors("#0b50e6", "light").accent).toBe("#0b50e6");
    expect(pageColors("#86adff", "dark").accent).toBe("#86adff");
    expect(pageColors(YELLOW, "light").accent).not.toBe(YELLOW);
    expect(pageColors("#000000", "dark").accent).not.toBe("#000000");
  });
});

test("contrast is that of WCAG 2.2, whichever of the two colours is lighter", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 10);
  expect(contrast("#ffffff", "#000000")).toBeCloseTo(21, 10);
  expect(contrast("#123456", "#123456")).toBe(1);
  // the grey of the recommendation's own examples that just passes on white, and the next lighter one
  expect(contrast("#767676", "#ffffff")).toBeCloseTo(4.54, 2);
  expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
});
