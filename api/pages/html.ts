/** HTML from template literals: every value is escaped unless it already is HTML. */

export type Html = { readonly html: string };
type Value = Html | string | number | false | null | undefined | readonly Value[];

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return { html: parts.reduce((text, part, index) => text + toText(values[index - 1]) + part) };
}

/** A data block for a script: browsers never execute it, so a strict policy allows it. */
export function jsonBlock(id: string, value: unknown): Html {
  // "<" could end the block or start a comment in it
  const json = JSON.stringify(value).replaceAll("<", "\\u003c");
  return { html: `<script type="application/json" id="${id}">${json}</script>` };
}

function toText(value: Value): string {
  if (value === null || value === undefined || value === false) return "";
  if (typeof value === "string") return value.replace(/[&<>"']/g, (char) => ENTITIES[char] ?? "");
  if (typeof value === "number") return String(value);
  if ("html" in value) return value.html;
  return value.map(toText).join("");
}
