/** Keyboard shortcuts. None fires inside a field or a dialog, and they can be switched off (WCAG 2.1.4). */
import { useEffect, useState } from "preact/hooks";
import { Dialog } from "../parts/controls.tsx";
import { navigate } from "./router.tsx";
import { say } from "./texts.ts";

const OFF = "shortcuts-off";
const GO: Readonly<Record<string, string>> = {
  o: "/",
  l: "/links",
  t: "/transactions",
  w: "/wallet",
  s: "/send",
  k: "/developers/keys",
};
const CHORD_MS = 1_200;

export const areShortcutsOn = () => localStorage.getItem(OFF) === null;

export function setShortcuts(isOn: boolean): void {
  if (isOn) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "1");
}

export function Shortcuts() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    let goUntilMs = 0;
    const press = (event: KeyboardEvent) => {
      const { target, key } = event;
      const isTyping = target instanceof HTMLElement && target.closest("input, textarea, select") !== null;
      // the focus may be nowhere while a dialog is open
      if (document.querySelector("dialog[open]")) return;
      if (isTyping || event.metaKey || event.ctrlKey || event.altKey || !areShortcutsOn()) return;
      const isChord = Date.now() < goUntilMs;
      goUntilMs = key === "g" ? Date.now() + CHORD_MS : 0;
      const to = isChord ? GO[key] : undefined;
      if (to) navigate(to);
      else if (key === "n" && !isChord) navigate("/links?new=1");
      else if (key === "?") setOpen(true);
      else if (key === "/") {
        const search = document.querySelector<HTMLInputElement>("input[type=search]");
        if (!search) return;
        search.focus();
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  if (!isOpen) return null;
  const rows = [
    ["n", say("New payment link")],
    ["/", say("Search")],
    ["g o", say("Overview")],
    ["g l", say("Links")],
    ["g t", say("Transactions")],
    ["g w", say("Wallet")],
    ["g s", say("Send")],
    ["g k", say("API keys")],
    ["?", say("This list")],
  ];
  return (
    <Dialog title={say("Keyboard")} onClose={() => setOpen(false)} narrow>
      <dl class="keys">
        {rows.map(([keys, what]) => (
          <div key={keys}>
            <dt>{what}</dt>
            <dd>
              <kbd>{keys}</kbd>
            </dd>
          </div>
        ))}
      </dl>
      <p class="muted small">{say("They can be switched off in the settings.")}</p>
    </Dialog>
  );
}
