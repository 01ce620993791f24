/** Follows a link's status: by event stream while the page is visible, and by polling every 3 seconds where no stream can be opened. */
import type { Link } from "./page-data.ts";
import { readLink } from "./service.ts";

const POLL_MS = 3_000;
/** Shorter interruptions are not shown. */
const LOST_AFTER_MS = 5_000;

export const isFinal = ({ status }: Link) =>
  status === "PAID" || status === "EXPIRED" || status === "CANCELLED";

/** `onLost(true)` while the connection is lost. Stops once the link's status is final. */
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
  const onAnswer = (link: Link) => {
    clearTimeout(lost);
    lost = undefined;
    onLost(false);
    onLink(link);
    if (!isFinal(link)) return;
    isOver = true;
    stop();
  };
  const onFailure = () => {
    lost ??= setTimeout(() => onLost(true), LOST_AFTER_MS);
  };
  const pollOnce = async () => {
    await readLink(linkId).then(onAnswer, onFailure);
    if (!isOver && !document.hidden) poll = setTimeout(pollOnce, POLL_MS);
  };
  const open = () => {
    if (isOver || document.hidden) return;
    source = new EventSource(`/api/v1/public/payment-links/${linkId}/events`);
    source.addEventListener("status", (event) => onAnswer(JSON.parse((event as MessageEvent<string>).data)));
    source.addEventListener("open", () => {
      clearTimeout(lost);
      lost = undefined;
      onLost(false);
    });
    source.addEventListener("error", () => {
      onFailure();
      // the server refused the stream: the browser does not reconnect then
      if (source?.readyState !== EventSource.CLOSED) return;
      stop();
      pollOnce();
    });
  };
  // HTTP/1.1 allows six connections per origin: hidden tabs must not hold them
  document.addEventListener("visibilitychange", () => {
    stop();
    open();
  });
  open();
}
