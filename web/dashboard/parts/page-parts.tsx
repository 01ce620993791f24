/** Components that screens consist of: headings, empty and error states, statuses, times, amounts. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Loaded } from "../frame/load.ts";
import { networkOf, page } from "../frame/page-data.ts";
import { formatAmount, formatFull, formatShort, say, shorten, toUtc } from "../frame/texts.ts";
import { Button, Notice } from "./controls.tsx";

type ScreenProps = {
  title: string;
  lead?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
};

/** A screen's heading takes the focus, so that screen readers announce it. */
export function Screen({ title, lead, actions, children }: ScreenProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · ${page.serviceName}`;
    heading.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [title]);
  return (
    <>
      <header class="screen">
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

type EmptyProps = { title: string; children: ComponentChildren; action?: ComponentChildren };

export function Empty({ title, children, action }: EmptyProps) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{children}</p>
      {action}
    </div>
  );
}

/** Why data could not be read, or not read again: then what is shown is older. */
export function explainUnread({ error, value }: Pick<Loaded<unknown>, "error" | "value">): string {
  const message = error?.message ?? "";
  return value === undefined ? message : `${message} ${say("What is shown here may be outdated.")}`;
}

/** Shows that one part could not be read; the rest of the screen stays. */
export function Broken({ loaded }: { loaded: Pick<Loaded<unknown>, "error" | "retry" | "value"> }) {
  return (
    <Notice kind="bad">
      <p>{explainUnread(loaded)}</p>
      <Button kind="quiet" onClick={loaded.retry}>
        {say("Try again")}
      </Button>
    </Notice>
  );
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div class="skeleton" aria-hidden="true">
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

/** The tone and the name of each status. */
const STATUSES: Readonly<Record<string, readonly ["ok" | "warn" | "bad" | "off" | "open", string]>> = {
  ACTIVE: ["open", "Open"],
  USED_UP: ["off", "Used up"],
  PENDING: ["warn", "Pending"],
  PAID: ["ok", "Paid"],
  EXPIRED: ["off", "Expired"],
  CANCELLED: ["off", "Cancelled"],
  DETECTED: ["warn", "In a block"],
  CONFIRMED: ["ok", "Confirmed"],
  FAILED: ["bad", "Failed"],
  ORPHANED: ["bad", "Undone by the chain"],
  QUEUED: ["warn", "Queued"],
  RUNNING: ["warn", "Running"],
  READY: ["ok", "Ready"],
  SIGNED: ["warn", "Signed"],
  BROADCAST: ["warn", "Sent"],
  MINED: ["warn", "In a block"],
  REQUESTED: ["warn", "Requested"],
  AWAITING_SIGNATURE: ["warn", "Not signed"],
  UNDERPAID: ["warn", "Underpaid"],
  OVERPAID: ["warn", "Overpaid"],
  DUPLICATE: ["warn", "Paid twice"],
  PAID_LATE: ["warn", "Paid late"],
  DELIVERED: ["ok", "Delivered"],
};

export const nameOfStatus = (status: string) => say(STATUSES[status]?.[1] ?? status);

export function Status({ of }: { of: string }) {
  return <span class={`status ${STATUSES[of]?.[0] ?? "off"}`}>{nameOfStatus(of)}</span>;
}

/** The name of a person, shop or key, in its script's own direction. */
export function Name({ of }: { of: string }) {
  return (
    <strong>
      <bdi>{of}</bdi>
    </strong>
  );
}

/** `isWhole`: with day, second and zone, for a single fact instead of one in a list. */
export function Time({ of, isWhole }: { of: string; isWhole?: boolean }) {
  return (
    <time dateTime={of} title={`${formatFull(of)} · ${toUtc(of)}`}>
      {isWhole ? formatFull(of) : formatShort(of)}
    </time>
  );
}

/** Longer ones get a smaller font where they are the largest text, so that no number is broken. */
const LONG_AMOUNT_CHARS = 14;

export function Amount({ of, sign = "" }: { of: string | number; sign?: "" | "+" | "−" }) {
  const text = sign + formatAmount(of);
  return <bdi class={text.length > LONG_AMOUNT_CHARS ? "amount long" : "amount"}>{text}</bdi>;
}

/** An address in groups of four, so that people can compare it. */
export function Address({ of }: { of: string }) {
  const groups = of.slice(2).match(/.{1,4}/g) ?? [];
  return (
    <bdi class="address" title={of}>
      <span>0x</span>
      {groups.map((group, index) => (
        <span key={index}>{group}</span>
      ))}
    </bdi>
  );
}

export function Hash({ of, network }: { of: string; network: string }) {
  const url = networkOf(network)?.explorerUrl;
  return (
    <a class="mono" href={`${url}${of}`} target="_blank" rel="noopener noreferrer" title={of}>
      <bdi>{shorten(of)}</bdi>
    </a>
  );
}

/** The column of amounts. */
export const USDC = "USDC";

type TableProps = {
  label: string;
  class?: string;
  columns: readonly ComponentChildren[];
  /** The rows belong to an earlier request. */
  isOld?: boolean | undefined;
  /** Its rows. */
  children: ComponentChildren;
};

/** Content wider than the screen scrolls within itself, with the keyboard too. */
export function Table({ label, class: more, columns, isOld, children }: TableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: without the focus nobody can scroll it by keys (WCAG 2.1.1)
    <section class={more ? `scroll ${more}` : "scroll"} aria-label={label} tabIndex={0}>
      <table class={isOld ? "list old" : "list"}>
        <thead>
          <tr>
            {columns.map((title, index) => (
              <th key={index} scope="col" class={title === USDC ? "number" : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}

type Row = readonly [string, ComponentChildren] | false | "" | null | undefined;

export function Facts({ rows }: { rows: readonly Row[] }) {
  return (
    <dl class="facts">
      {rows.map(
        (row) =>
          row && (
            <div key={row[0]}>
              <dt>{row[0]}</dt>
              <dd>{row[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
