/** The controls of every screen. */
import type { ComponentChildren, JSX, RefObject } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { say } from "../frame/texts.ts";

type ButtonProps = {
  kind?: "main" | "plain" | "danger" | "quiet";
  type?: "button" | "submit";
  isBusy?: boolean;
  isOff?: boolean | undefined;
  label?: string;
  /** Enter must not move money: whoever submitted a form with it may still hold the key. */
  ignoresEnter?: boolean;
  onClick?: () => void;
  children: ComponentChildren;
};

export function Button({
  kind = "plain",
  type = "button",
  isBusy,
  isOff,
  label,
  ignoresEnter,
  onClick,
  children,
}: ButtonProps) {
  return (
    <button
      type={type}
      class={`button ${kind}`}
      disabled={isOff}
      aria-disabled={isBusy}
      aria-busy={isBusy}
      aria-label={label}
      onClick={(event) => {
        // not disabled while it is busy, which would take the focus from it
        if (isBusy) event.preventDefault();
        else onClick?.();
      }}
      onKeyDown={(event) => {
        if (ignoresEnter && event.key === "Enter") event.preventDefault();
      }}
    >
      {children}
    </button>
  );
}

type FieldProps = {
  label: string;
  hint?: ComponentChildren;
  error?: string | undefined;
  value: string;
  onInput: (value: string) => void;
  /** Shown after the input, such as "USDC". */
  unit?: string;
  isLong?: boolean;
  rows?: number;
} & Pick<
  JSX.IntrinsicElements["input"],
  | "type"
  | "required"
  | "placeholder"
  | "autocomplete"
  | "inputMode"
  | "maxLength"
  | "minLength"
  | "pattern"
  | "min"
  | "max"
  | "autofocus"
  | "spellcheck"
  | "name"
>;

export function Field({
  label,
  hint,
  error,
  value,
  onInput,
  unit,
  isLong,
  rows,
  autofocus,
  ...input
}: FieldProps) {
  const id = useId();
  const box = useRef<HTMLInputElement & HTMLTextAreaElement>(null);
  useEffect(() => {
    if (!autofocus) return;
    // a dialog that is about to open gives the focus to the element with this attribute
    box.current?.setAttribute("autofocus", "");
    box.current?.focus();
  }, []);
  const described = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ");
  const common = {
    id,
    ref: box,
    value,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": described || undefined,
    onInput: (event: Event) => onInput((event.currentTarget as HTMLInputElement).value),
  } as const;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <span class={unit ? "with-unit" : undefined}>
        {isLong ? (
          <textarea
            {...common}
            rows={rows ?? 3}
            required={input.required}
            placeholder={input.placeholder}
            maxLength={input.maxLength}
            spellcheck={input.spellcheck}
          />
        ) : (
          <input {...common} {...(input as object)} />
        )}
        {unit && <span class="unit">{unit}</span>}
      </span>
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error && (
        <p class="error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

type ChoiceProps = {
  label: string;
  value: string;
  onInput: (value: string) => void;
  options: readonly (readonly [value: string, text: string])[];
  isHidden?: boolean;
  hint?: string;
};

export function Choice({ label, value, onInput, options, isHidden, hint }: ChoiceProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id} class={isHidden ? "hidden" : undefined}>
        {label}
      </label>
      <select
        id={id}
        value={value}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onChange={(event) => onInput(event.currentTarget.value)}
      >
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
      {hint && (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </div>
  );
}

type CheckProps = {
  label: ComponentChildren;
  isOn: boolean;
  isOff?: boolean;
  onInput: (isOn: boolean) => void;
  hint?: string;
};

export function Check({ label, isOn, isOff, onInput, hint }: CheckProps) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isOn}
        disabled={isOff}
        onChange={(event) => onInput(event.currentTarget.checked)}
      />
      <span>
        {label}
        {hint && <span class="hint">{hint}</span>}
      </span>
    </label>
  );
}

type NoticeProps = {
  kind: "bad" | "warn" | "ok" | "info";
  /** Its element, for the caller. */
  place?: RefObject<HTMLDivElement | null>;
  children: ComponentChildren;
};

export function Notice({ kind, place, children }: NoticeProps) {
  return (
    <div ref={place ?? null} class={`notice ${kind}`} role={kind === "bad" ? "alert" : "status"}>
      {children}
    </div>
  );
}

type DialogProps = {
  title: string;
  /** Undefined while it must stay open. */
  onClose: (() => void) | undefined;
  narrow?: boolean;
  side?: boolean;
  children: ComponentChildren;
};

/**
 * Above the page: the browser keeps the focus inside and returns it to where it was, and Escape closes it unless it must stay open or has
 * something to finish.
 */
export function Dialog({ title, onClose, narrow, side, children }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    box.current?.showModal();
  }, []);
  // before it is removed, which would leave the focus nowhere
  useLayoutEffect(() => () => box.current?.close(), []);
  return (
    <dialog
      ref={box}
      class={side ? "side" : narrow ? "narrow" : undefined}
      aria-labelledby={id}
      {...(onClose ? {} : { closedby: "none" })}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      // a second Escape closes it without asking
      onClose={() => {
        if (!box.current) return;
        box.current.showModal();
        onClose?.();
      }}
    >
      <header>
        <h2 id={id} tabIndex={-1}>
          {title}
        </h2>
        {onClose && (
          <button type="button" class="close" aria-label={say("Close")} onClick={onClose}>
            <svg viewBox="0 0 16 16" aria-hidden="true">
              <path d="M3 3l10 10M13 3L3 13" />
            </svg>
          </button>
        )}
      </header>
      <div class="content">{children}</div>
    </dialog>
  );
}

const COPIED_MS = 1_600;

type CopyProps = { text: string; label: string; children?: ComponentChildren };

export function Copy({ text, label, children }: CopyProps) {
  const [isCopied, setCopied] = useState(false);
  const [isRefused, setRefused] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const showCopied = () => {
    setRefused(false);
    setCopied(true);
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      showCopied();
    } catch {
      // pages without TLS have no clipboard, and in-app browsers may refuse it
      setRefused(true);
    }
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class={children ? "button plain" : "copy"}
        aria-label={children ? undefined : label}
        title={label}
        onClick={copy}
      >
        {children ? (
          isCopied ? (
            say("Copied")
          ) : (
            children
          )
        ) : (
          <svg viewBox="0 0 16 16" aria-hidden="true">
            {isCopied ? <path d="M3 8.5l3.5 3.5L13 4.5" /> : <path d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" />}
          </svg>
        )}
      </button>
      <span class="hidden" role="status">
        {isCopied ? say("Copied") : ""}
      </span>
      {isRefused && (
        <Selected
          text={text}
          label={label}
          onCopy={showCopied}
          onEnd={() => setRefused(false)}
          onReturn={() => button.current?.focus()}
        />
      )}
    </>
  );
}

type SelectedProps = {
  text: string;
  label: string;
  onCopy: () => void;
  onEnd: () => void;
  /** It ended with the focus in it. */
  onReturn: () => void;
};

/** Text to copy by hand, until it is copied or left. */
function Selected({ text, label, onCopy, onEnd, onReturn }: SelectedProps) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // selecting alone focuses nothing in some browsers, and leaving it ends it
    box.current?.focus();
    box.current?.select();
  }, []);
  useLayoutEffect(() => () => void (document.activeElement === box.current && onReturn()), []);
  return (
    <span class="by-hand">
      <span role="alert">{say("The browser does not let this page copy. Copy the selected text:")}</span>
      <input
        ref={box}
        value={text}
        aria-label={label}
        readOnly
        onCopy={onCopy}
        onBlur={onEnd}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          // a dialog around it stays
          event.preventDefault();
          onEnd();
        }}
      />
    </span>
  );
}
