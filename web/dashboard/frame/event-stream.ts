/**
 * The account's event stream. One tab of the browser holds it and passes events on, because HTTP/1.1 allows six connections per origin;
 * when that tab is closed another one takes over. Nothing is polled while it is open.
 */
import { useEffect } from "preact/hooks";
import type { LiveRecord } from "./live-record.ts";
import { invalidate, takeChange } from "./load.ts";

/** `data` contains the current state of the link or transaction concerned. */
type LiveEvent = { type: string; data: { link?: LiveRecord; transaction?: LiveRecord } };

const LOCK = "dashboard-events";
const RETRY_MS = 5_000;
/** Shorter interruptions are not shown. */
const LOST_AFTER_MS = 5_000;
/** The paths that an event invalidates, by the prefix of its type. */
const CONCERNS: Readonly<Record<string, readonly string[]>> = {
  payment_link: ["/v1/payment-links", "/api/v1/public/", "/v1/transactions", "/v1/wallets/balance"],
  transaction: ["/v1/transactions", "/v1/payment-links", "/api/v1/public/", "/v1/wallets/balance"],
  wallet: ["/v1/wallets", "/v1/transactions", "/v1/auth/me", "/v1/members"],
  member: ["/v1/members", "/v1/auth/me"],
  refund: ["/v1/payment-links", "/v1/refunds", "/v1/transactions", "/v1/wallets"],
};

/** Every tab gets the events of its own account: one channel per account and person. `address`: of the stream. */
export function useLiveEvents(account: string, address: string): void {
  useEffect(() => {
    const channel = new BroadcastChannel(`${LOCK}-${account}`);
    const ended = new AbortController();
    const take = (event: LiveEvent | "open") => {
      // events may have been missed while no stream was open, so everything is read again
      if (event === "open") invalidate("/v1/", "/api/");
      else takeChange(CONCERNS[event.type.split(".")[0] ?? ""] ?? [], recordsOf(event));
    };
    channel.onmessage = (message) => take(message.data as LiveEvent);
    const pass = (event: LiveEvent | "open") => {
      take(event);
      channel.postMessage(event);
    };
    void navigator.locks
      .request(`${LOCK}-${account}`, { signal: ended.signal }, () =>
        hold(pass, { address, signal: ended.signal }),
      )
      // the page is closing, or another account has signed in
      .catch(() => undefined);
    return () => {
      ended.abort();
      channel.close();
    };
  }, [account, address]);
}

const recordsOf = ({ data: { link, transaction } }: LiveEvent) =>
  [link, transaction].filter((record) => record !== undefined);

/** Holds the stream until the tab closes. The browser reconnects after a lost connection, but not after a refusal. */
function hold(
  pass: (event: LiveEvent | "open") => void,
  { address, signal }: { address: string; signal: AbortSignal },
): Promise<void> {
  return new Promise((resolve) => {
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isFirst = true;
    let isRefused = false;
    let lost: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      source = new EventSource(address);
      source.addEventListener("open", () => {
        clearTimeout(lost);
        lost = undefined;
        if (!isFirst) pass("open");
        isFirst = false;
        isRefused = false;
      });
      source.onmessage = ({ data }) => pass(JSON.parse(data) as LiveEvent);
      source.onerror = () => {
        // reads that fail as well show that what is on the screen is no longer current
        lost ??= setTimeout(() => pass("open"), LOST_AFTER_MS);
        if (source?.readyState !== EventSource.CLOSED) return;
        // refused: the session or the membership may have ended, which any call shows
        if (!isRefused) pass("open");
        isRefused = true;
        timer = setTimeout(open, RETRY_MS);
      };
    };
    open();
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      clearTimeout(lost);
      source?.close();
      resolve();
    });
  });
}
