/**
 * Which font has a letter. Arimo, the font of Latin text, has further Latin, Greek, Cyrillic, Hebrew and Vietnamese letters in a file each,
 * DejaVu Sans has Arabic and what is left of them; Noto Sans has
 * Chinese, Japanese kana and Korean, in about a hundred small files each, the scripts of South and South East Asia, Ethiopia and Georgia in
 * a file each, Noto Emoji the pictures; opened when `prepare` meets a letter of theirs. Letters that stand on each other come from one font.
 * pdfkit embeds nothing visible of a WOFF2 font; what it is given is the TrueType font inside.
 */
import { fileURLToPath } from "node:url";
import { decompress } from "wawoff2";
import { graphemesOf } from "./line-breaks.ts";
import { type EmbeddedFont, pdfInside } from "./pdfkit-internals.ts";
import { openShaper, type Shape } from "./shaping.ts";
import { isWinAnsi } from "./win-ansi.ts";

type FontFile = { name: string; file: string; isThin: boolean };
/** A font of one document. Thin ones are drawn with an outline that thickens them. */
export type WideFont = { isThin: boolean; embedded: EmbeddedFont; shape: Shape };

const DEJAVU: FontFile = { name: "DejaVuSans", file: "dejavu-fonts-ttf/ttf/DejaVuSans.ttf", isThin: false };
const ARIMO = { scope: "@fontsource", weight: "400" };
const ARIMO_SUBSETS = ["latin-ext", "vietnamese", "greek", "cyrillic", "greek-ext", "cyrillic-ext", "hebrew"];
const SCRIPTS = [
  ...["devanagari", "bengali", "tamil", "telugu", "gujarati", "gurmukhi", "kannada", "malayalam", "oriya"],
  ...["sinhala", "thai", "lao", "khmer", "myanmar", "ethiopic", "georgian", "armenian"],
];
/** These are embedded in their thinnest weight, the only one the variable files draw by themselves. */
const THIN_FAMILIES = ["noto-sans-sc", "noto-sans-kr"];
const PICTURES = "noto-emoji";

/** Chooses fonts for one document and makes them known to it. */
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
    /** Opens the fonts these texts need. Letters not prepared have no font. */
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

/** Joiners, selectors and direction marks change how others are drawn and are not drawn themselves. */
export function isFormat(letter: string): boolean {
  return /[\p{Cf}\p{Variation_Selector}]/u.test(letter);
}

type Range = { first: number; last: number; font: FontFile };
let ranges: Promise<Range[]> | undefined;

/** The files whose published ranges hold the letter: Arimo, DejaVu, scripts with files of their own, then Chinese, Korean, pictures. */
async function findFonts(letter: string): Promise<FontFile[]> {
  ranges ??= Promise.all([
    ...ARIMO_SUBSETS.map((subset) => readRanges("arimo", { subset, isThin: false }, ARIMO)),
    [{ first: 0, last: 0x10ffff, font: DEJAVU }],
    ...SCRIPTS.map((script) => readRanges(`noto-sans-${script}`, { subset: script, isThin: false })),
    // the sign of Georgia's currency
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
/** Opened once a process: 50 to 700 kB each. */
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
