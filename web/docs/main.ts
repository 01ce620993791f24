/** The documentation's script: search in the browser, and copy buttons on samples. Without it the pages lack only these two. */
import { findSections, type SearchEntry } from "./search.ts";

const SHOWN_MAX = 12;
const COPIED_MS = 1_500;

addCopyButtons();
addSearch();

function addCopyButtons(): void {
  for (const figure of document.querySelectorAll<HTMLElement>("figure.code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.onclick = async () => {
      await navigator.clipboard.writeText(figure.querySelector("pre")?.textContent ?? "");
      button.textContent = "Copied";
      setTimeout(() => {
        button.textContent = "Copy";
      }, COPIED_MS);
    };
    figure.querySelector("figcaption")?.append(button);
  }
}

function addSearch(): void {
  const box = document.querySelector<HTMLElement>(".search");
  const input = box?.querySelector("input");
  const results = box?.querySelector<HTMLElement>(".results");
  const list = results?.querySelector("ul");
  const status = results?.querySelector("p");
  if (!box || !input || !results || !list || !status) return;
  box.hidden = false;
  let entries: Promise<SearchEntry[]> | undefined;
  const load = () => {
    entries ??= fetch("/docs/search.json").then((answer) => answer.json());
    return entries;
  };
  const close = () => {
    results.hidden = true;
  };
  const show = async () => {
    const asked = input.value;
    if (asked.trim() === "") return close();
    const found = findSections(await load(), asked).slice(0, SHOWN_MAX);
    // a later keystroke was faster
    if (asked !== input.value) return;
    list.replaceChildren(...(found.length > 0 ? found.map(toItem) : [nothing(asked)]));
    status.textContent = `${found.length} results`;
    results.hidden = false;
  };
  input.addEventListener("focus", () => void load());
  input.addEventListener("input", () => void show());
  list.addEventListener("click", close);
  document.addEventListener("click", (event) => {
    if (!box.contains(event.target as Node)) close();
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = document.activeElement?.matches("input, textarea");
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      input.focus();
    }
    if (event.key === "Escape") close();
    const links = [...list.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || results.hidden || !box.contains(document.activeElement)) return;
    event.preventDefault();
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    (links[at + step] ?? input).focus();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list.querySelector("a")?.click();
  });
}

function toItem({ path, page, title, text }: SearchEntry): HTMLLIElement {
  const item = document.createElement("li");
  const link = document.createElement("a");
  const name = document.createElement("strong");
  const place = document.createElement("small");
  link.href = path;
  name.textContent = title;
  place.textContent = title === page ? text.slice(0, 90) : page;
  link.append(name, place);
  item.append(link);
  return item;
}

function nothing(asked: string): HTMLLIElement {
  const item = document.createElement("li");
  item.textContent = `Nothing found for “${asked.trim()}”`;
  return item;
}
