/** The link's state as it changes: a stream while the page is seen, and polling when no stream can be had. */
import type { Link } from "./page-data.ts";
import { readLink } from "./service.ts";

const POLL_MS = 3_000;
/** Shorter interruptions are not worth a word. */
const LOST_AFTER_MS = 5_000;

export const isFinal = ({ status }: Link) =>
  status === "PAID" || status === "EXPIRED" || status === "CANCELLED";

/** `onLost(true)` when nothing was heard for a while. Ends by itself when the link's state is final. */
export function watchLink(
  linkId: string,
  onLink: (link: Link) => void,
  onLost: (isLost: boolean) => void,
): void {
  let source: EventSource | undefined;
  let poll: ReturnType<typeof setTimeout> | undefined;
  let lost: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;

  const stop = () => {
    source?.close();
    source = undefined;
    clearTimeout(poll);
  };
  const hear = (link: Link) => {
    clearTimeout(lost);
    lost = undefined;
    onLost(false);
    onLink(link);
    if (!isFinal(link)) return;
    isOver = true;
    stop();
  };
  const miss = () => {
    lost ??= setTimeout(() => onLost(true), LOST_AFTER_MS);
  };
  const pollOnce = async () => {
    await readLink(linkId).then(hear, miss);
    if (!isOver && !document.hidden) poll = setTimeout(pollOnce, POLL_MS);
  };
  const open = () => {
    if (isOver || document.hidden) return;
    source = new EventSource(`/api/v1/public/payment-links/${linkId}/events`);
    source.addEventListener("status", (event) => hear(JSON.parse((event as MessageEvent<string>).data)));
    source.addEventListener("open", () => {
      clearTimeout(lost);
      lost = undefined;
      onLost(false);
    });
    source.addEventListener("error", () => {
      miss();
      // refused: the browser does not try again by itself
      if (source?.readyState !== EventSource.CLOSED) return;
      stop();
      pollOnce();
    });
  };
  // HTTP/1.1 allows six connections an origin: hidden tabs must not hold them
  document.addEventListener("visibilitychange", () => {
    stop();
    open();
  });
  open();
}
