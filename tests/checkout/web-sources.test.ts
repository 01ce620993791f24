/** The pages' built files and sources: small enough, readable in every language, and with enough contrast. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { PAYMENT_REFUSALS } from "../../core/domain/payment.ts";
import { buildPages } from "../../local/processes/service-process.ts";

const WEB = join(import.meta.dir, "../../web");
const read = (file: string) => readFileSync(join(WEB, file));

describe("the code that a payer loads", () => {
  for (const [name, limitBytes] of [
    ["checkout.js", 12_288],
    ["checkout.css", 3_072],
    ["embed.js", 4_096],
    ["further-wallets.js", 2_048],
  ] as const)
    test(`${name} has at most ${limitBytes} bytes`, async () => {
      await buildPages();
      const { assets } = JSON.parse(read("dist/manifest.json").toString());
      const packed = read(`dist/${assets[name]}.br`);
      expect(brotliDecompressSync(packed).equals(read(`dist/${assets[name]}`))).toBe(true);
      expect(packed.length).toBeLessThanOrEqual(limitBytes);
    });
});

describe("messages", () => {
  const languages = [...new Bun.Glob("*.json").scanSync(join(WEB, "messages"))].sort();
  const messagesOf = (file: string): Record<string, string> =>
    JSON.parse(read(`messages/${file}`).toString());
  const english = messagesOf("en.json");
  const placeholdersOf = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([name]) => name).sort();

  test("there are eleven languages", () => {
    expect(languages).toHaveLength(11);
  });

  for (const file of languages) {
    test(`${file} has every message that English has, with the same placeholders`, () => {
      const messages = messagesOf(file);
      expect(Object.keys(messages)).toEqual(Object.keys(english));
      for (const [key, text] of Object.entries(messages)) {
        expect(`${key} ${placeholdersOf(text)}`).toBe(`${key} ${placeholdersOf(english[key] ?? "")}`);
        expect(text.trim()).toBe(text);
        expect(text).not.toBe("");
      }
    });
  }

  test("every message is used by a page", () => {
    // by these names the service refuses a payment, and the page looks them up by the name that it gets
    const refusals = Object.keys(english).filter((key) => /^[A-Z_]+$/.test(key));
    for (const code of refusals) expect(PAYMENT_REFUSALS).toHaveProperty(code);
    const sources = ["checkout", "further-wallets", "../api/pages", "../api/receipts"]
      .flatMap((folder) =>
        [...new Bun.Glob("*.{ts,tsx}").scanSync(join(WEB, folder))].map((file) => `${folder}/${file}`),
      )
      .map((file) => read(file).toString())
      .join("\n");
    const others = Object.keys(english).filter((key) => !refusals.includes(key));
    expect(others.filter((key) => !sources.includes(`"${key}"`))).toEqual([]);
  });

  test("no file has a key twice, or a line break between an amount and its unit", () => {
    for (const file of languages) {
      const text = read(`messages/${file}`).toString();
      const keys = [...text.matchAll(/^ {2}"(\w+)":/gm)].map(([, key]) => key);
      expect([file, keys]).toEqual([file, Object.keys(english)]);
      expect([file, /\} USDC/.exec(text)]).toEqual([file, null]);
    }
  });

  test("no other language is a copy of English", () => {
    for (const file of languages.filter((name) => name !== "en.json")) {
      const messages = messagesOf(file);
      const same = Object.keys(english).filter((key) => messages[key] === english[key]);
      expect(`${file}: ${same.length < 5}`).toBe(`${file}: true`);
    }
  });
});

describe("contrast (WCAG 2.2)", () => {
  const [light = "", dark = ""] = read("design/tokens.css").toString().split("@media");
  const colorOf = (css: string, name: string) =>
    new RegExp(`--${name}: (#[0-9a-f]{6});`).exec(css)?.[1] ?? "";

  const luminance = (color: string) => {
    const [red = 0, green = 0, blue = 0] = [1, 3, 5]
      .map((at) => Number.parseInt(color.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one: string, other: string) => {
    const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  const PAIRS = [
    ...["text", "muted", "accent", "warn", "bad", "ok"].map((ink) => [ink, "surface", 4.5] as const),
    ...["text", "muted"].map((ink) => [ink, "bg", 4.5] as const),
    ...["text", "muted"].map((ink) => [ink, "sunken", 4.5] as const),
    ...["accent", "ok", "warn", "bad"].map((ink) => [ink, `${ink}-soft`, 4.5] as const),
    ["on-accent", "accent", 4.5],
    ["on-accent", "accent-hover", 4.5],
    ["edge", "surface", 3],
    ["edge", "bg", 3],
  ] as const;

  test("black on white is 21 to 1", () => {
    expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
  });

  for (const [ink, paper, least] of PAIRS)
    test(`${ink} on ${paper} has a contrast of at least ${least} to 1, in light and dark mode`, () => {
      for (const css of [light, dark]) {
        expect(colorOf(css, ink)).not.toBe("");
        expect(contrast(colorOf(css, ink), colorOf(css, paper))).toBeGreaterThanOrEqual(least);
      }
    });
});
