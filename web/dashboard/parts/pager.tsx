/** The buttons below a list: newer and older rows. */
import { useEffect, useRef } from "preact/hooks";
import { setQuery } from "../frame/router.tsx";
import { say } from "../frame/texts.ts";
import { Button } from "./controls.tsx";
import { Empty } from "./page-parts.tsx";

type PagerProps = { cursor: string | undefined; next: string | null | undefined };

/** Older rows and back; nothing while there is one page. */
export function Pager({ cursor, next }: PagerProps) {
  const place = useListTop(cursor);
  if (!cursor && !next) return null;
  // a page that was opened by its address has no page before it that is known
  const newer = newerPages();
  return (
    <nav class="pager" aria-label={say("Pages")} ref={place}>
      <Button
        isOff={!cursor}
        onClick={() => setQuery({ page: newer.at(-1) }, { state: { newer: newer.slice(0, -1) } })}
      >
        {cursor && newer.length === 0 ? say("Newest") : say("Newer")}
      </Button>
      <Button
        isOff={!next}
        onClick={() => setQuery({ page: next ?? undefined }, { state: { newer: [...newer, cursor ?? ""] } })}
      >
        {say("Older")}
      </Button>
    </nav>
  );
}

/** Cursors of the pages that led to this one; "" is the first. */
function newerPages(): readonly string[] {
  return (history.state as { newer?: readonly string[] } | null)?.newer ?? [];
}

/** Another page begins at the top of its list, which is in front of the buttons. */
export function useListTop(page: string | number | undefined) {
  const place = useRef<HTMLElement>(null);
  const shown = useRef(page);
  useEffect(() => {
    if (shown.current !== page) place.current?.previousElementSibling?.scrollIntoView();
    shown.current = page;
  }, [page]);
  return place;
}

/** A page that the list no longer has. */
export function PastEnd() {
  return (
    <Empty
      title={say("There is no such page")}
      action={<Button onClick={() => setQuery({ page: undefined })}>{say("First page")}</Button>}
    >
      {say("The list ends before it.")}
    </Empty>
  );
}
