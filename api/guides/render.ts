/** Converts markdown to a page's HTML, with heading anchors, and to text sections for the search. */

export type Section = { id: string; title: string; level: number; text: string };
export type Rendered = { title: string; summary: string; html: string; sections: Section[] };

const OPTIONS = { headings: { ids: true }, noHtmlBlocks: true, noHtmlSpans: true } as const;
/** Guides link to each other as files, which works when they are read as files. */
const FILE_LINK = /href="([a-z0-9-]+)\.md"/g;
const HEADING = /<h([1-4]) id="([^"]*)">([\s\S]*?)<\/h\1>/g;

export function renderMarkdown(markdown: string): Rendered {
  const names = [...markdown.matchAll(/^```\w+ ?([\w.-]*)$/gm)].map(([, name = ""]) => name);
  const plain = Bun.markdown.html(markdown, OPTIONS);
  const [, title = ""] = /<h1[^>]*>([\s\S]*?)<\/h1>/.exec(plain) ?? [];
  const [, summary = ""] = /<p>([\s\S]*?)<\/p>/.exec(plain) ?? [];
  return {
    title: textOf(title),
    summary: textOf(summary),
    html: plain
      .replaceAll(FILE_LINK, 'href="$1"')
      .replaceAll(HEADING, (whole, level: string, id: string, text: string) =>
        level === "1"
          ? whole
          : `<h${level} id="${id}"><a class="anchor" href="#${id}">${text}</a></h${level}>`,
      )
      // anything that scrolls horizontally must be reachable by keyboard
      .replaceAll("<table>", '<div class="table" tabindex="0"><table>')
      .replaceAll("</table>", "</table></div>")
      .replaceAll(/<pre>(<code[^>]*>[\s\S]*?<\/code>)<\/pre>/g, (_whole, code: string) =>
        figure(code, names.shift() ?? ""),
      ),
    sections: sectionsOf(plain),
  };
}

const LANGUAGES: Readonly<Record<string, string>> = {
  sh: "Shell",
  ts: "TypeScript",
  js: "JavaScript",
  python: "Python",
  html: "HTML",
  json: "JSON",
};

/** Titled with its file name, else its language; the page's script adds the copy button next to the title. */
function figure(code: string, name: string): string {
  const [, language = ""] = /class="language-(\w+)"/.exec(code) ?? [];
  return `<figure class="code"><figcaption>${name || (LANGUAGES[language] ?? language)}</figcaption><pre tabindex="0">${code}</pre></figure>`;
}

function sectionsOf(html: string): Section[] {
  const headings = [...html.matchAll(HEADING)];
  return headings.map(({ 0: whole, 1: level, 2: id = "", 3: title = "", index }, position) => ({
    id,
    title: textOf(title),
    level: Number(level),
    text: textOf(html.slice(index + whole.length, headings[position + 1]?.index)),
  }));
}

const INLINE = /<\/?(?:a|code|em|strong)(?: [^>]*)?>/g;
const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&amp;": "&",
};

function textOf(html: string): string {
  return html
    .replaceAll(INLINE, "")
    .replaceAll(/<[^>]*>/g, " ")
    .replaceAll(/&(?:lt|gt|quot|#39|amp);/g, (entity) => ENTITIES[entity] ?? entity)
    .replaceAll(/\s+/g, " ")
    .trim();
}
