/**
 * Which font has a letter. DejaVu Sans has the Latin, Greek, Cyrillic, Hebrew and Arabic letters the standard fonts lack; Noto Sans has
 * Chinese, Japanese kana and Korean, in about a hundred small files each, Noto Emoji the pictures; opened when `prepare` meets a letter of theirs.
 * The variable Noto files are embedded in their thinnest weight, so their letters are drawn with an outline that thickens them.
 * pdfkit embeds nothing visible of a WOFF2 font; what it is given is the TrueType font inside.
 */
import { fileURLToPath } from "node:url";
import { decompress } from "wawoff2";
import { pdfInside } from "./pdf-inside.ts";
import { isWinAnsi } from "./win-ansi.ts";

export type WideFont = { name: string; file: string; isThin: boolean };

const DEJAVU: WideFont = { name: "DejaVuSans", file: "dejavu-fonts-ttf/ttf/DejaVuSans.ttf", isThin: false };
const NOTO = ["noto-sans-sc", "noto-sans-kr", "noto-emoji"] as const;

/** Chooses fonts for one document and makes them known to it. */
export function openWideFonts(doc: PDFKit.PDFDocument) {
  const registered = new Set<string>();
  const chosen = new Map<string, WideFont | undefined>();

  async function register(font: WideFont): Promise<void> {
    if (registered.has(font.name)) return;
    doc.registerFont(font.name, await readFont(font.file));
    registered.add(font.name);
  }

  async function choose(letter: string): Promise<WideFont | undefined> {
    const codePoint = letter.codePointAt(0) ?? 0;
    for (const font of [DEJAVU, ...(await findNoto(codePoint))]) {
      await register(font);
      doc.font(font.name);
      if (pdfInside(doc)._font.font.hasGlyphForCodePoint(codePoint)) return font;
    }
    return undefined;
  }

  return {
    /** Opens the fonts these texts need. Letters not prepared have no font. */
    async prepare(texts: readonly string[]): Promise<void> {
      for (const text of texts) {
        if (isWinAnsi(text)) continue;
        for (const letter of text)
          if (!chosen.has(letter) && !isWinAnsi(letter)) chosen.set(letter, await choose(letter));
      }
    },
    /** Undefined when no font has the letter. */
    fontOf: (letter: string): WideFont | undefined => chosen.get(letter),
    use: (font: WideFont): void => void doc.font(font.name),
  };
}

type Range = { first: number; last: number; font: WideFont };
let ranges: Promise<Range[]> | undefined;

/** The files whose published ranges hold the letter; Chinese before Korean before pictures. */
async function findNoto(codePoint: number): Promise<WideFont[]> {
  ranges ??= Promise.all(NOTO.map(readRanges)).then((lists) => lists.flat());
  const fitting = (await ranges).filter(({ first, last }) => codePoint >= first && codePoint <= last);
  return fitting.map(({ font }) => font);
}

/** unicode.json of a fontsource package: {"[4]": "U+1f1e9-1f1f5,U+1f21a", "latin": …}. */
async function readRanges(family: string): Promise<Range[]> {
  const subsets: Record<string, string> = await Bun.file(
    pathOf(`@fontsource-variable/${family}/unicode.json`),
  ).json();
  return Object.entries(subsets).flatMap(([subset, text]) => {
    const name = `${family}-${subset.replace(/[[\]]/g, "")}`;
    const font = {
      name,
      file: `@fontsource-variable/${family}/files/${name}-wght-normal.woff2`,
      isThin: family !== "noto-emoji",
    };
    return text.split(",").map((range) => {
      const [first = "", last = first] = range.replace(/^U\+/i, "").split("-");
      return { first: Number.parseInt(first, 16), last: Number.parseInt(last, 16), font };
    });
  });
}

/** Opened once a process: about 90 kB each. */
const fonts = new Map<string, Promise<Buffer>>();

function readFont(file: string): Promise<Buffer> {
  let font = fonts.get(file);
  if (!font) {
    const bytes = Bun.file(pathOf(file)).bytes();
    font = (file.endsWith(".woff2") ? bytes.then(decompress) : bytes).then((data) => Buffer.from(data));
    fonts.set(file, font);
  }
  return font;
}

function pathOf(file: string): string {
  return fileURLToPath(import.meta.resolve(file));
}
