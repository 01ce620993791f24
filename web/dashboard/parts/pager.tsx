/** The buttons below a list: newer and older rows. */
import { setQuery } from "../frame/router.tsx";
import { say } from "../frame/texts.ts";
import { Button } from "./controls.tsx";

type PagerProps = { cursor: string | undefined; next: string | null | undefined };

/** Older rows and back; nothing while there is one page. */
export function Pager({ cursor, next }: PagerProps) {
  if (!cursor && !next) return null;
  return (
    <nav class="pager" aria-label={say("Pages")}>
      <Button isOff={!cursor} onClick={() => history.back()}>
        {say("Newer")}
      </Button>
      <Button isOff={!next} onClick={() => setQuery({ page: next ?? undefined })}>
        {say("Older")}
      </Button>
    </nav>
  );
}
