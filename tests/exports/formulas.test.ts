/** Which CSV cells get an apostrophe, so that no program evaluates them as a formula. */
import { expect, test } from "bun:test";
import { encodeCsv } from "../../worker/exports/encode-csv.ts";
import { neutralizeCell } from "../../worker/exports/neutralize-formulas.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { parseCsv } from "./read-files.ts";

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

test("what is written as CSV is read back as it was, cell by cell, with a comma and with a semicolon", () => {
  const random = seededRandom("cells of every kind");
  const pieces = ["a", ",", ";", '"', "\r", "\n", "\r\n", " ", "", "北", "\t", "\ufeff", "\u2028", '""'];
  const pick = () => pieces[Math.floor(random() * pieces.length)] ?? "";
  const records = Array.from({ length: 2_000 }, () =>
    Array.from({ length: 4 }, () => Array.from({ length: Math.floor(random() * 4) }, pick).join("")),
  );
  expect(parseCsv(encodeCsv(records))).toEqual(records);
  const swap = (text: string) => text.replace(/[;,]/g, (sign) => (sign === ";" ? "," : ";"));
  expect(parseCsv(swap(encodeCsv(records, ";")))).toEqual(records.map((record) => record.map(swap)));
  expect(encodeCsv([["plain", "a;b", "a,b", 'a"b']])).toBe('plain,a;b,"a,b","a""b"\r\n');
  expect(encodeCsv([["a;b", "a,b", "", "a\nb"]], ";")).toBe('"a;b";a,b;;"a\nb"\r\n');
});
