/** The languages of the payment page and of its documents, and how a reader's preference selects one. Pure. */

/** By BCP 47 tag. The database has the same list (`payments_payer_language_check`). */
export const LANGUAGE_TAGS = [
  "en",
  "es",
  "pt-BR",
  "fr",
  "de",
  "tr",
  "ar",
  "hi",
  "id",
  "vi",
  "zh-Hans",
] as const;
/** The default. */
export const DEFAULT_LANGUAGE = "en";
export type Language = (typeof LANGUAGE_TAGS)[number];

const ACCEPTED_MAX = 20;

/** The same tag, else the same language: "pt" and "pt-PT" get "pt-BR", every Chinese tag gets "zh-Hans". */
export function findLanguage(tag: string): Language | undefined {
  const wanted = tag.toLowerCase();
  const [base = ""] = wanted.split("-");
  return (
    LANGUAGE_TAGS.find((known) => known.toLowerCase() === wanted) ??
    LANGUAGE_TAGS.find((known) => known.toLowerCase().split("-")[0] === base)
  );
}

/** The first supported language of an `Accept-Language` header; programs send none, or `*`. */
export function acceptedLanguage(header: string | null | undefined): Language | undefined {
  const wanted = (header ?? "")
    .split(",", ACCEPTED_MAX)
    .map((item) => {
      const [tag = "", ...parameters] = item.split(";").map((part) => part.trim());
      const quality = parameters.map((text) => /^q=([\d.]+)$/i.exec(text)?.[1]).find(Boolean);
      return { tag, quality: quality === undefined ? 1 : Number(quality) };
    })
    .filter(({ quality }) => quality > 0)
    .sort((a, b) => b.quality - a.quality);
  for (const { tag } of wanted) {
    const found = findLanguage(tag);
    if (found) return found;
  }
  return undefined;
}
