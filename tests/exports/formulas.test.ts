/** Which CSV cells get an apostrophe, so that no program evaluates them as a formula. */
import { expect, test } from "bun:test";
import { neutralizeCell } from "../../worker/exports/csv.ts";

const name = (text: string) =>
  JSON.stringify(text).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`);

const FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", "＋1", "－1", "＠A"];
const PREFIXES = [
  "",
  " ",
  "   ",
  "\u00a0",
  "\u3000",
  "\ufeff",
  "\u200b",
  "\u200d",
  "\u2060",
  "\u00ad",
  "\u202e",
  "\u180e",
  "\u3164",
  "\ufe0f",
  "\0",
  "\x1b",
  "\t",
  "\r\n",
  " \ufeff\u200b ",
];

test.each(PREFIXES.map((prefix) => [name(prefix), prefix]))(
  "a formula after %s is neutralised",
  (_name, prefix) => {
    for (const formula of FORMULAS) expect(neutralizeCell(prefix + formula)).toBe(`'${prefix}${formula}`);
  },
);

test.each(["\ttext", "\rtext", "\ntext", "\0text"].map((cell) => [name(cell), cell]))(
  "%s starts with a character that some programs skip, and gets an apostrophe too",
  (_name, cell) => {
    expect(neutralizeCell(cell)).toBe(`'${cell}`);
  },
);

test.each(
  [
    "",
    " ",
    "plain",
    " plain",
    "\ufeffplain",
    "\u200b",
    "1=1",
    "a =1",
    " a=1",
    "'=1",
    "\u200bа-1",
    "5-3",
    "_=1",
    ".=1",
    "日本=1",
  ].map((cell) => [name(cell), cell]),
)("%s is unchanged", (_name, cell) => {
  expect(neutralizeCell(cell)).toBe(cell);
});
