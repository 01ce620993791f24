/** The URL as state: screens, ids and filters are in it, so Back, reload and sharing work. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

const CHANGE = "navigate-within";

export type Place = { readonly path: string; readonly query: URLSearchParams };

const read = (): Place => ({ path: location.pathname, query: new URLSearchParams(location.search) });

/** `state`: stored with this entry of the browser's history, so that it survives Back and reload. */
type Going = { replace?: boolean; state?: unknown };

export function navigate(to: string, { replace = false, state = null }: Going = {}): void {
  if (to === location.pathname + location.search) return;
  if (replace) history.replaceState(state, "", to);
  else history.pushState(state, "", to);
  dispatchEvent(new Event(CHANGE));
}

export function usePlace(): Place {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const update = () => setPlace(read());
    addEventListener("popstate", update);
    addEventListener(CHANGE, update);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener(CHANGE, update);
    };
  }, []);
  return place;
}

/** Changes these filters and keeps the others; an empty one is removed. A filter that changes the rows also resets the page. */
export function setQuery(changes: Readonly<Record<string, string | undefined>>, options?: Going) {
  const query = new URLSearchParams(location.search);
  if (!("page" in changes) && !("open" in changes)) query.delete("page");
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  const isSamePage = query.get("page") === new URLSearchParams(location.search).get("page");
  const state = isSamePage ? (history.state as unknown) : null;
  navigate(`${location.pathname}${text ? `?${text}` : ""}`, { state, ...options });
}

type LinkProps = {
  to: string;
  class?: string;
  current?: boolean;
  label?: string;
  children: ComponentChildren;
};

/** Opened here on a plain click; any other click is the browser's. */
export function Link({ to, class: className, current, label, children }: LinkProps) {
  return (
    <a
      href={to}
      class={className}
      aria-current={current ? "page" : undefined}
      aria-label={label}
      onClick={(event) => {
        if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        navigate(to);
      }}
    >
      {children}
    </a>
  );
}
