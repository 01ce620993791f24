/** What each character of a TypeScript file is: code, a comment, a string, or the text of a template that holds SQL. */

export type Context = "code" | "comment" | "string" | "template" | "sql";

const LOOKS_LIKE_SQL = /\b(select|update|insert into|delete from|where|case)\b/;

/** One entry a character. `${…}` inside a template is code again; regular expressions count as code. */
export function scanSource(text: string): Context[] {
  const contexts = new Array<Context>(text.length).fill("code");
  /** Of each open template: its own text so far, and the depth of braces at which its interpolation ends (-1: outside of one). */
  const open: { own: number[]; depth: number }[] = [];
  let depth = 0;
  let at = 0;
  while (at < text.length) {
    const inTemplate = open.at(-1)?.depth === -1;
    const end = inTemplate ? at + 1 : endOfToken(text, at);
    const kind = inTemplate ? "template" : kindOfToken(text, at);
    contexts.fill(kind, at, end);
    const char = text[at] ?? "";
    const template = open.at(-1);
    if (inTemplate && template) {
      if (char === "\\") contexts[++at] = "template";
      else if (char === "`") {
        open.pop();
        if (isSql(template.own, text)) for (const own of template.own) contexts[own] = "sql";
      } else if (char === "$" && text[at + 1] === "{") {
        template.depth = depth++;
        contexts[++at] = "code";
      } else template.own.push(at);
      at += 1;
      continue;
    }
    if (kind === "code") {
      if (char === "`") open.push({ own: [], depth: -1 });
      if (char === "{") depth += 1;
      if (char === "}") {
        depth -= 1;
        if (template && template.depth === depth) template.depth = -1;
      }
    }
    at = end;
  }
  return contexts;
}

function kindOfToken(text: string, at: number): Context {
  const two = text.slice(at, at + 2);
  if (two === "//" || two === "/*") return "comment";
  return text[at] === '"' || text[at] === "'" ? "string" : "code";
}

function endOfToken(text: string, at: number): number {
  const two = text.slice(at, at + 2);
  if (two === "//") return orEnd(text, text.indexOf("\n", at));
  if (two === "/*") return orEnd(text, text.indexOf("*/", at) + 2);
  const quote = text[at];
  if (quote !== '"' && quote !== "'") return at + 1;
  for (let end = at + 1; end < text.length; end++) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === quote || text[end] === "\n") return end + 1;
  }
  return text.length;
}

function orEnd(text: string, index: number): number {
  return index <= 1 ? text.length : index;
}

function isSql(own: readonly number[], text: string): boolean {
  return LOOKS_LIKE_SQL.test(own.map((at) => text[at]).join(""));
}
