/** Shaping of scripts that join, stack and reorder letters, and line breaks in them. */
import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { decompress } from "wawoff2";
import { breakLines } from "../../core/pdf/line-breaks.ts";
import { openShaper, type Shape } from "../../core/pdf/shaping.ts";

async function openScript(script: string): Promise<Shape> {
  const name = `noto-sans-${script}`;
  const file = import.meta.resolve(`@fontsource-variable/${name}/files/${name}-${script}-wght-normal.woff2`);
  return openShaper(await decompress(await Bun.file(fileURLToPath(file)).bytes()));
}

const ids = (shape: Shape, word: string) => shape(word, false).map(({ id }) => id);

test.each([
  ["devanagari", "क", "ि"],
  ["bengali", "ক", "ি"],
  ["gujarati", "ક", "િ"],
  ["gurmukhi", "ਕ", "ਿ"],
  ["tamil", "க", "ெ"],
  ["malayalam", "ക", "െ"],
  ["sinhala", "ක", "ෙ"],
  ["khmer", "ក", "េ"],
  ["myanmar", "က", "ေ"],
])(
  "%s: a vowel spoken after the consonant but written before it is placed before it",
  async (script, consonant, vowel) => {
    const shape = await openScript(script);
    const [alone] = ids(shape, consonant);
    const both = ids(shape, consonant + vowel);
    expect(both.length).toBe(2);
    expect(both.indexOf(alone ?? -1)).toBe(1);
  },
);

test.each([
  ["tamil", "க", "ொ"],
  ["bengali", "ক", "ো"],
  ["malayalam", "ക", "ൊ"],
])("%s: a two-part vowel encloses its consonant", async (script, consonant, vowel) => {
  const shape = await openScript(script);
  const both = ids(shape, consonant + vowel);
  expect(both.length).toBe(3);
  expect(both[1]).toBe(ids(shape, consonant)[0] ?? -1);
});

test.each([
  ["devanagari", "क्ष"],
  ["devanagari", "ज्ञ"],
  ["bengali", "ক্ষ"],
  ["gujarati", "ક્ષ"],
  ["kannada", "ಜ್ಞ"],
  ["tamil", "க்ஷ"],
  ["malayalam", "ക്ക"],
])("%s: %s is joined without its vowel killer", async (script, conjunct) => {
  const shape = await openScript(script);
  const [first = "", virama = ""] = conjunct;
  const killed = ids(shape, first + virama);
  expect(ids(shape, conjunct).length).toBeLessThan(3);
  expect(ids(shape, conjunct)).not.toContain(killed.length > 1 ? (killed[1] ?? -1) : -1);
});

test("devanagari: r before a consonant becomes a zero-width hook after it", async () => {
  const shape = await openScript("devanagari");
  const glyphs = shape("र्क", false);
  expect(glyphs.map(({ id }) => id)[0]).toBe(ids(shape, "क")[0] ?? -1);
  expect(glyphs.length).toBe(2);
  expect(glyphs[1]?.advance).toBe(0);
});

test("thai: a tone mark above a vowel stands higher than above a bare consonant; marks have zero width", async () => {
  const shape = await openScript("thai");
  const [, alone] = shape("ท่", false);
  const stacked = shape("ที่", false);
  expect(stacked.map(({ advance }) => advance > 0)).toEqual([true, false, false]);
  // another form of the mark, or the same one moved up
  const [tone] = stacked.slice(2);
  expect(tone?.id !== alone?.id || (tone?.y ?? 0) > (alone?.y ?? 0)).toBe(true);
});

test("thai: the ring of sara am is drawn below the preceding tone mark", async () => {
  const shape = await openScript("thai");
  const [ring] = ids(shape, "นํ").slice(1);
  const [consonant, first, tone, vowel, ...more] = shape("น้ำ", false);
  expect(more).toEqual([]);
  expect(first?.id).toBe(ring ?? -1);
  expect([consonant, first, tone, vowel].map((glyph) => (glyph?.advance ?? 0) > 0)).toEqual([
    true,
    false,
    false,
    true,
  ]);
});

test.each([
  ["gurmukhi", "ਪੰਜਾਬੀ ਧੰਨਵਾਦ ਸ੍ਰੀ ਜ਼ਿਲ੍ਹਾ"],
  ["malayalam", "പണമടയ്ക്കൽ കൃഷ്ണൻ സ്ത്രീ"],
  ["telugu", "శ్రీ కృష్ణ"],
  ["khmer", "ខ្ញុំ"],
])("%s: words with marks that have no anchor are shaped", async (script, text) => {
  const shape = await openScript(script);
  for (const word of text.split(" ")) {
    const glyphs = shape(word, false);
    expect(glyphs.map(({ text: drawn }) => drawn).join("")).toBe(word);
    expect(glyphs.every(({ id }) => id > 0)).toBe(true);
  }
});

/** Each grapheme is 1 wide. */
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
const measure = (text: string) => [...graphemes.segment(text)].length;

test.each([
  ["at spaces", "Order 1234 of May", 11, ["Order 1234 ", "of May"]],
  ["inside a word that is wider than a line", "abcdefgh", 3, ["abc", "def", "gh"]],
  ["inside a long word on a line hardly begun", "ab cdefghijkl", 8, ["ab cdefg", "hijkl"]],
  ["before a word where half the line is used", "abcde fghij", 8, ["abcde ", "fghij"]],
  ["between Thai words", "ชำระเงินค่าสินค้า", 5, ["ชำระ", "เงินค่า", "สินค้า"]],
  ["between ideographs, not before a full stop", "支付订单。号码", 4, ["支付订", "单。号码"]],
  ["not after an opening bracket", "支付订（号）", 4, ["支付订", "（号）"]],
  ["never inside a conjunct", "राष्ट्रराष्ट्र", 3, ["राष्ट्ररा", "ष्ट्र"]],
  ["one letter a line when not even one fits", "ab", 0, ["a", "b"]],
  ["nowhere when everything fits", "abc def", 7, ["abc def"]],
  ["of nothing", "", 5, []],
])("lines end %s", (_, text, width, expected) => {
  expect(breakLines(text, width, measure)).toEqual(expected);
});
