/** The page at /docs: renders /openapi.json with nothing but the browser. */
import { createHash } from "node:crypto";

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #0052ff; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; display: grid; grid-template-columns: 20rem 1fr; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; border-right: 1px solid var(--line); }
nav a { display: block; color: inherit; text-decoration: none; font-size: 13px; padding: .1rem 0; overflow-wrap: anywhere; }
nav a:hover { color: var(--accent); }
main { padding: 1rem 2rem; max-width: 62rem; }
article { border: 1px solid var(--line); border-radius: 8px; margin: 0 0 1.2rem; padding: .8rem 1.1rem; }
h1 { font-size: 1.4rem; } h2 { font: 600 15px ui-monospace, monospace; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 13px; margin: 1rem 0 .3rem; text-transform: uppercase; opacity: .7; }
b.method { color: var(--accent); display: inline-block; min-width: 4rem; }
pre { background: var(--soft); padding: .7rem; border-radius: 6px; overflow: auto; font-size: 12.5px; margin: .3rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
td { border-top: 1px solid var(--line); padding: .25rem .5rem .25rem 0; vertical-align: top; }
details > summary { cursor: pointer; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; } }
`;

const SCRIPT = `
const make = (tag, text, cls) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (cls) node.className = cls;
  return node;
};
const schemaBlock = (schema) => make("pre", JSON.stringify(schema, (key, value) => key === "$schema" ? undefined : value, 2));
const section = (parent, title, ...nodes) => { parent.append(make("h3", title), ...nodes); };
const parameterTable = (parameters) => {
  const table = make("table");
  for (const one of parameters) {
    const row = make("tr");
    row.append(make("td", one.name + (one.required ? " *" : "")), make("td", one.in), make("td", JSON.stringify(one.schema)));
    table.append(row);
  }
  return table;
};
const article = (path, method, operation) => {
  const node = make("article");
  node.id = operation.operationId || method + path;
  const title = make("h2");
  title.append(make("b", method.toUpperCase(), "method"), path);
  node.append(title);
  if (operation.summary) node.append(make("p", operation.summary));
  if (operation.description) node.append(make("p", operation.description));
  const needs = (operation.security || []).flatMap((one) => Object.keys(one));
  if (needs.length) node.append(make("p", "Needs: " + needs.join(" or ")));
  if (operation.parameters) section(node, "Parameters", parameterTable(operation.parameters));
  for (const body of Object.values(operation.requestBody?.content || {})) section(node, "Body", schemaBlock(body.schema));
  for (const [status, response] of Object.entries(operation.responses || {})) {
    const fold = make("details");
    fold.append(make("summary", status + " " + (response.description || "")));
    for (const [type, body] of Object.entries(response.content || {})) fold.append(make("p", type), schemaBlock(body.schema));
    node.append(fold);
  }
  return node;
};
const draw = (spec) => {
  const main = document.querySelector("main"), nav = document.querySelector("nav");
  main.append(make("h1", spec.info.title + " " + spec.info.version), make("p", spec.info.description));
  for (const [path, item] of Object.entries(spec.paths).sort(([a], [b]) => a.localeCompare(b)))
    for (const [method, operation] of Object.entries(item)) {
      const node = article(path, method, operation);
      main.append(node);
      const link = make("a", method.toUpperCase() + " " + path);
      link.href = "#" + node.id;
      nav.append(link);
    }
};
const expand = (part, whole) => {
  if (Array.isArray(part)) return part.map((one) => expand(one, whole));
  if (!part || typeof part !== "object") return part;
  const { $ref, ...beside } = part;
  if (!$ref) return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, expand(value, whole)]));
  const target = $ref.slice(2).split("/").reduce((node, key) => node[key], whole);
  return { ...expand(target, whole), ...beside };
};
fetch("/openapi.json").then((answer) => answer.json()).then((spec) => draw({ ...spec, paths: expand(spec.paths, spec) }));
`;

const hashOf = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** Exactly this page's own style and script, and requests to our own origin. */
export const DOCS_CSP = [
  "default-src 'none'",
  `script-src ${hashOf(SCRIPT)}`,
  `style-src ${hashOf(STYLE)}`,
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

export const docsPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>USDC payment service: API</title>
<style>${STYLE}</style>
<nav aria-label="Routes"></nav>
<main></main>
<script type="module">${SCRIPT}</script>
</html>`;
