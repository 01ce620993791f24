/** The sections of the documentation that match a search, best first. Pure. */

export type SearchEntry = { path: string; page: string; title: string; text: string };

const IN_TITLE = 10;
const TITLE_BEGINS = 10;
const IN_PAGE = 4;
const IN_TEXT = 1;

/** Every word must occur; a word in a title counts more than one in the text. */
export function findSections(entries: readonly SearchEntry[], asked: string): SearchEntry[] {
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  return entries
    .map((entry) => ({ entry, score: scoreOf(entry, words) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ entry }) => entry);
}

function scoreOf({ title, page, text }: SearchEntry, words: readonly string[]): number {
  const [inTitle, inPage, inText] = [title, page, text].map((part) => part.toLowerCase());
  let score = 0;
  for (const word of words) {
    let found = 0;
    if (inTitle?.includes(word)) found += IN_TITLE;
    if (inTitle?.startsWith(word)) found += TITLE_BEGINS;
    if (inPage?.includes(word)) found += IN_PAGE;
    if (inText?.includes(word)) found += IN_TEXT;
    if (found === 0) return 0;
    score += found;
  }
  return score;
}
