/**
 * Which font has a letter. Arimo, the font for Latin text, has one file each for extended Latin, Greek, Cyrillic, Hebrew and Vietnamese;
 * DejaVu Sans has Arabic and the remaining letters of those scripts; Noto Sans has Chinese, Japanese kana and Korean in about a hundred
 * small files each, and one file for each script of South and South East Asia, Ethiopia and Georgia; Noto Emoji has the emoji. A file is
 * opened when `prepare` meets one of its letters. Letters that combine come from one font. pdfkit draws nothing from a WOFF2 font, so it
 * gets the TrueType font inside.
 */
import { fileURLToPath } from "node:url";
import { decompress } from "wawoff2";
import { graphemesOf } from "./line-breaks.ts";
import { type EmbeddedFont, pdfInside } from "./pdfkit-internals.ts";
import { openShaper, type Shape } from "./shaping.ts";
import { isWinAnsi } from "./win-ansi.ts";

type FontFile = { name: string; file: string; isThin: boolean };
/** A font of one document. Thin fonts are drawn with an outline to thicken them. */
export type WideFont = { isThin: boolean; embedded: EmbeddedFont; shape: Shape };

const DEJAVU: FontFile = { name: "DejaVuSans", file: "dejavu-fonts-ttf/ttf/DejaVuSans.ttf", isThin: false };
const ARIMO = { scope: "@fontsource", weight: "400" };
const ARIMO_SUBSETS = ["latin-ext", "vietnamese", "greek", "cyrillic", "greek-ext", "cyrillic-ext", "hebrew"];
const SCRIPTS = [
  ...["devanagari", "bengali", "tamil", "telugu", "gujarati", "gurmukhi", "kannada", "malayalam", "oriya"],
  ...["sinhala", "thai", "lao", "khmer", "myanmar", "ethiopic", "georgian", "armenian"],
];
/** Embedded in their thinnest weight, the default instance of the variable fonts. */
const THIN_FAMILIES = ["noto-sans-sc", "noto-sans-kr"];
const PICTURES = "noto-emoji";

/** Chooses fonts for one document and registers them. */
export function openWideFonts(doc: PDFKit.PDFDocument) {
  const opened = new Map<string, WideFont>();
  const chosen = new Map<string, WideFont | undefined>();

  async function open({ name, file, isThin }: FontFile): Promise<WideFont> {
    const known = opened.get(name);
    if (known) return known;
    const { trueType, shape } = await readFont(file);
    doc.registerFont(name, trueType);
    doc.font(name);
    const font = { isThin, embedded: pdfInside(doc)._font, shape };
    opened.set(name, font);
    return font;
  }

  /** The first font that has all the letters. */
  async function choose(letters: readonly string[]): Promise<WideFont | undefined> {
    const rarest = letters.find((letter) => !isWinAnsi(letter));
    if (!rarest) return undefined;
    for (const file of await findFonts(rarest)) {
      const font = await open(file);
      if (letters.every((letter) => hasLetter(font, letter))) return font;
    }
    return undefined;
  }

  async function prepareOne(grapheme: string): Promise<void> {
    if (isWinAnsi(grapheme) || chosen.has(grapheme)) return;
    const letters = [...grapheme].filter((letter) => !isFormat(letter));
    const font = await choose(letters);
    chosen.set(grapheme, font);
    if (font || letters.length < 2) return;
    for (const letter of letters) await prepareOne(letter);
  }

  return {
    /** Opens the fonts that these texts need. Letters that were not prepared have no font. */
    async prepare(texts: readonly string[]): Promise<void> {
      for (const text of texts) {
        if (isWinAnsi(text)) continue;
        for (const grapheme of graphemesOf(text)) await prepareOne(grapheme);
      }
    },
    /** Undefined when no font has all of these letters, which are one grapheme. */
    fontOf: (grapheme: string): WideFont | undefined => chosen.get(grapheme),
  };
}

export function hasLetter(font: WideFont, letter: string): boolean {
  return font.embedded.font.hasGlyphForCodePoint(letter.codePointAt(0) ?? 0);
}

/** Joiners, variation selectors and direction marks change how other characters are drawn and are not drawn themselves. */
export function isFormat(letter: string): boolean {
  return /[\p{Cf}\p{Variation_Selector}]/u.test(letter);
}

type Range = { first: number; last: number; font: FontFile };
let ranges: Promise<Range[]> | undefined;

/** The files whose published ranges include the letter: Arimo, DejaVu, scripts with files of their own, then Chinese, Korean, emoji. */
async function findFonts(letter: string): Promise<FontFile[]> {
  ranges ??= Promise.all([
    ...ARIMO_SUBSETS.map((subset) => readRanges("arimo", { subset, isThin: false }, ARIMO)),
    [{ first: 0, last: 0x10ffff, font: DEJAVU }],
    ...SCRIPTS.map((script) => readRanges(`noto-sans-${script}`, { subset: script, isThin: false })),
    // Georgia's currency symbol
    readRanges("noto-sans-georgian", { subset: "latin-ext", isThin: false }),
    ...THIN_FAMILIES.map((family) => readRanges(family, { isThin: true })),
    readRanges(PICTURES, { isThin: false }),
  ]).then((lists) => lists.flat());
  const codePoint = letter.codePointAt(0) ?? 0;
  const fitting = (await ranges).filter(({ first, last }) => codePoint >= first && codePoint <= last);
  return fitting.map(({ font }) => font);
}

/** unicode.json of a fontsource package: {"[4]": "U+1f1e9-1f1f5,U+1f21a", "latin": …}. Without `only.subset` every file. */
async function readRanges(
  family: string,
  only: { subset?: string; isThin: boolean },
  place: { scope: string; weight: string } = { scope: "@fontsource-variable", weight: "wght" },
): Promise<Range[]> {
  const folder = `${place.scope}/${family}`;
  const subsets: Record<string, string> = await Bun.file(pathOf(`${folder}/unicode.json`)).json();
  const wanted = Object.entries(subsets).filter(([subset]) => !only.subset || subset === only.subset);
  return wanted.flatMap(([subset, text]) => {
    const name = `${family}-${subset.replace(/[[\]]/g, "")}`;
    const file = `${folder}/files/${name}-${place.weight}-normal.woff2`;
    return text.split(",").map((range) => {
      const [first = "", last = first] = range.trim().replace(/^U\+/i, "").split("-");
      const font = { name, file, isThin: only.isThin };
      return { first: Number.parseInt(first, 16), last: Number.parseInt(last, 16), font };
    });
  });
}

type FontData = { trueType: Buffer; shape: Shape };
/** Opened once per process: 50 to 700 kB each. */
const fonts = new Map<string, Promise<FontData>>();

function readFont(file: string): Promise<FontData> {
  const font = fonts.get(file) ?? loadFont(file);
  fonts.set(file, font);
  return font;
}

async function loadFont(file: string): Promise<FontData> {
  const bytes = await Bun.file(pathOf(file)).bytes();
  const trueType = Buffer.from(file.endsWith(".woff2") ? await decompress(bytes) : bytes);
  return { trueType, shape: await openShaper(trueType) };
}

function pathOf(file: string): string {
  return fileURLToPath(import.meta.resolve(file));
}
