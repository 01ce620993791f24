/** Components that every step uses. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

type CardProps = {
  title: string;
  isCurrent: boolean;
  children: ComponentChildren;
  onChange?: (() => void) | undefined;
};

/** A step. The current one takes the focus, so that screen readers announce it; an earlier one can be changed. */
export function Card({ title, isCurrent, children, onChange }: CardProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (isCurrent) heading.current?.focus();
  }, [isCurrent]);
  return (
    <section class={isCurrent ? "card" : "card past"}>
      <header>
        <h2 ref={heading} tabIndex={-1}>
          {title}
        </h2>
        {onChange && (
          <button type="button" class="plain" onClick={onChange}>
            Change<span class="hidden"> {title}</span>
          </button>
        )}
      </header>
      {children}
    </section>
  );
}

export function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="facts">{children}</dl>;
}

export function Fact({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Addresses and hashes in full, so that people can compare all of it. */
export function Hash({ children }: { children: string }) {
  return <bdi class="hash">{children}</bdi>;
}

export function Problem({ text }: { text: string | undefined }) {
  if (text === undefined) return null;
  return (
    <p class="note bad" role="alert">
      {text}
    </p>
  );
}

const COPIED_MS = 2_000;

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), COPIED_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <button
      type="button"
      class="copy"
      aria-label={label}
      onClick={() =>
        navigator.clipboard.writeText(text).then(
          () => setCopied(true),
          () => setCopied(false),
        )
      }
    >
      {isCopied ? "Copied" : "Copy"}
    </button>
  );
}

export function Busy({ children }: { children: ComponentChildren }) {
  return (
    <p class="busy" role="status">
      <span class="spinner" aria-hidden="true" />
      <span>{children}</span>
    </p>
  );
}
