/** Shared by forms and their screens: submitting, errors of actions, loading, and panels. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import type { Action } from "../frame/action.ts";
import type { Loaded } from "../frame/load.ts";
import { say } from "../frame/texts.ts";
import { Button, Check, Notice } from "./controls.tsx";
import { Broken, Skeleton } from "./page-parts.tsx";

type FormProps = { onSubmit: () => unknown; class?: string; children: ComponentChildren };

export function Form({ onSubmit, class: className = "form", children }: FormProps) {
  return (
    <form
      class={className}
      onSubmit={(event) => {
        event.preventDefault();
        void onSubmit();
      }}
    >
      {children}
    </form>
  );
}

type SubmitProps = {
  action: Pick<Action, "isBusy" | "fault">;
  text: string;
  kind?: "main" | "danger";
  isOff?: boolean;
  /** Without it the button submits its form. */
  onClick?: () => unknown;
  onClose?: () => void;
  closeText?: string;
  children?: ComponentChildren;
};

/** Why an action failed, its button, and a way to cancel. */
export function Submit({
  action: { isBusy, fault },
  text,
  kind = "main",
  isOff,
  onClick,
  onClose,
  closeText,
  children,
}: SubmitProps) {
  return (
    <>
      <Fault of={fault} />
      <div class="actions">
        <Button
          kind={kind}
          isBusy={isBusy}
          isOff={isOff}
          {...(onClick ? { onClick } : { type: "submit" as const })}
        >
          {text}
        </Button>
        {onClose && <Button onClick={onClose}>{closeText ?? say("Cancel")}</Button>}
        {children}
      </div>
    </>
  );
}

/** Why an action failed; scrolled into view when it appears, because a long form or sheet may end below the screen. */
export function Fault({ of }: { of: string | undefined }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (of) place.current?.scrollIntoView({ block: "center" });
  }, [of]);
  if (!of) return null;
  return (
    <Notice kind="bad" place={place}>
      {of}
    </Notice>
  );
}

type LoadingProps<Value> = {
  of: Loaded<Value>;
  rows?: number;
  children: (value: Value) => ComponentChildren;
};

/** The data that was read, with a note if it could not be read again; until then a placeholder, or why it could not be read. */
export function Loading<Value>({ of, rows, children }: LoadingProps<Value>) {
  if (of.value !== undefined)
    return (
      <>
        {of.error && <Broken loaded={of} />}
        {children(of.value)}
      </>
    );
  return of.error ? <Broken loaded={of} /> : <Skeleton {...(rows ? { rows } : {})} />;
}

type PanelProps = {
  title: ComponentChildren;
  class?: string;
  isPadded?: boolean;
  actions?: ComponentChildren;
  children: ComponentChildren;
};

export function Panel({ title, class: more, isPadded, actions, children }: PanelProps) {
  const id = useId();
  const heading = <h2 id={id}>{title}</h2>;
  const classes = ["panel", isPadded && "padded", more].filter(Boolean).join(" ");
  return (
    <section class={classes} aria-labelledby={id}>
      {actions ? (
        <header>
          {heading}
          {actions}
        </header>
      ) : (
        heading
      )}
      {children}
    </section>
  );
}

type ChecksProps<Name extends string> = {
  legend: string;
  options: readonly (readonly [Name, ComponentChildren])[];
  value: readonly Name[];
  onInput: (value: Name[]) => void;
};

/** Any number of the options. */
export function Checks<Name extends string>({ legend, options, value, onInput }: ChecksProps<Name>) {
  return (
    <fieldset class="checks">
      <legend>{legend}</legend>
      {options.map(([name, label]) => (
        <Check
          key={name}
          label={label}
          isOn={value.includes(name)}
          onInput={(isOn) => onInput(isOn ? [...value, name] : value.filter((other) => other !== name))}
        />
      ))}
    </fieldset>
  );
}
