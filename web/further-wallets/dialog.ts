/** A dialog over the page for wallets outside this browser: it shows the pairing code, or a button whose click may open the wallet's window. */
import { say } from "../checkout/page-data.ts";
import type { PairingCode } from "../wallets/walletconnect.ts";
import { declined } from "./load.ts";

const COPIED_MS = 2_000;

type Shown = { showCode: (code: PairingCode) => void; close: () => void };

/** `onCancel` is called when the payer closes it. */
export function openDialog(wallet: string, onCancel: () => void): Shown {
  const title = element("h2", say("connecting", { wallet }));
  const content = element("div");
  content.append(element("div", "", "spinner"));
  const { close } = show([title, content], onCancel);
  return {
    close,
    showCode: ({ uri, rows }) => {
      const link = element("a", say("openWalletApp"), "button second");
      link.href = uri;
      const parts = [drawCode(rows, say("pairingCode", { wallet })), copyButton(uri)];
      // on a phone the wallet is an app on the same device, whose camera cannot scan its own screen
      const isPhone = matchMedia("(pointer: coarse)").matches;
      content.replaceChildren(element("p", say("scanToConnect"), "small"), ...parts);
      if (isPhone) content.prepend(link);
    },
  };
}

/** Resolves in a button's click handler, where a window may be opened. */
export function askToContinue(wallet: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = button(say("continueIn", { wallet }), "button");
    const { close } = show([go], () => reject(declined()));
    go.addEventListener("click", () => {
      close();
      resolve();
    });
  });
}

function show(parts: readonly Node[], onCancel: () => void): { close: () => void } {
  const dialog = element("dialog", "", "ask");
  const cancel = button(say("cancel"), "plain");
  cancel.addEventListener("click", () => dialog.close());
  let isOurs = false;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (!isOurs) onCancel();
  });
  dialog.append(...parts, cancel);
  document.body.append(dialog);
  dialog.showModal();
  return {
    close: () => {
      isOurs = true;
      dialog.close();
    },
  };
}

function copyButton(text: string): HTMLElement {
  const copy = button(say("copy"), "plain");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = say("copied");
    setTimeout(() => {
      copy.textContent = say("copy");
    }, COPIED_MS);
  });
  return copy;
}

/** Dark on light in dark mode too, like the page's other code. */
function drawCode(rows: PairingCode["rows"], label: string): Element {
  const size = String(rows.length);
  const svg = shape("svg", { class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label });
  const dark = rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")));
  svg.setAttribute("shape-rendering", "crispEdges");
  svg.append(
    shape("rect", { width: size, height: size, fill: "#fff" }),
    shape("path", { fill: "#000", d: dark.join("") }),
  );
  return svg;
}

function shape(name: string, attributes: Record<string, string>): Element {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function element<Name extends keyof HTMLElementTagNameMap>(name: Name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

function button(text: string, className: string): HTMLButtonElement {
  const made = element("button", text, className);
  made.type = "button";
  return made;
}
