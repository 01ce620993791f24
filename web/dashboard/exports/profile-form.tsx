/** A saved export: its name, format, columns, and which movements it includes. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { nameOfNetwork, page } from "../frame/page-data.ts";
import { call, type Given } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Choice, Dialog, Field } from "../parts/controls.tsx";
import { CurrencyChoice } from "../parts/currency-choice.tsx";
import { Checks, Form, Submit } from "../parts/forms.tsx";
import { TimeZoneChoice } from "../parts/time-zone-choice.tsx";
import { ColumnChoice } from "./column-choice.tsx";
import { FORMATS, IMPORTED } from "./formats.ts";
import type { Profile } from "./profile.ts";

type Body = NonNullable<Given<"POST /v1/export-profiles">["body"]>;
type Definition = Required<Body>;

const TYPES = [
  ["PAYMENT_LINK", "Paid links"],
  ["RECEIVE", "Other received"],
  ["SEND", "Sent"],
] as const;
const EMPTY: Definition = {
  name: "",
  format: "csv",
  columns: null,
  fiatCurrency: null,
  timeZone: null,
  types: [],
  networks: [],
};

/** `profile` undefined: a new one. */
export function ProfileForm({ profile, onClose }: { profile: Profile | undefined; onClose: () => void }) {
  const [given, setGiven] = useState<Definition>(() => definitionOf(profile ?? EMPTY));
  const action = useAction();
  const change = (fields: Partial<Definition>) => setGiven({ ...given, ...fields });
  const hasColumns = !IMPORTED.includes(given.format);
  const save = () =>
    action.change(["/v1/export-"], async () => {
      const body = { ...given, name: given.name.trim(), columns: hasColumns ? given.columns : null };
      if (profile) await call("PATCH /v1/export-profiles/{id}", { id: profile.id, body });
      else await call("POST /v1/export-profiles", { body });
      onClose();
    });
  return (
    <Dialog title={profile ? say("Change the saved export") : say("New saved export")} onClose={onClose}>
      <Form onSubmit={save}>
        <Field
          label={say("Name")}
          value={given.name}
          onInput={(name) => change({ name })}
          required
          maxLength={100}
          placeholder={say("Monthly books")}
          autofocus
        />
        <div class="pair">
          <Choice
            label={say("Format")}
            value={given.format}
            onInput={(format) => change({ format: format as Definition["format"] })}
            // a document has no columns to choose
            options={FORMATS.filter(([name]) => name !== "pdf").map(([name, text]) => [name, say(text)])}
          />
          <CurrencyChoice
            label={say("Values in")}
            value={given.fiatCurrency ?? ""}
            onInput={(code) => change({ fiatCurrency: code || null })}
            none={say("From settings")}
          />
        </div>
        <TimeZoneChoice
          label={say("Time zone")}
          value={given.timeZone ?? ""}
          onInput={(zone) => change({ timeZone: zone || null })}
          none={say("From settings")}
        />
        {hasColumns ? (
          <ColumnChoice value={given.columns} onInput={(columns) => change({ columns })} />
        ) : (
          <p class="muted">{say("This program's format has its own columns.")}</p>
        )}
        <Checks
          legend={say("Movements (none chosen: all)")}
          options={TYPES.map(([type, text]) => [type, say(text)] as const)}
          value={given.types}
          onInput={(types) => change({ types })}
        />
        {page.networks.length > 1 && (
          <Checks
            legend={say("Networks (none chosen: all)")}
            options={page.networks.map(({ id }) => [id, nameOfNetwork(id)] as const)}
            value={given.networks}
            onInput={(networks) => change({ networks })}
          />
        )}
        <Submit action={action} text={say("Save")} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

function definitionOf({
  name,
  format,
  columns,
  fiatCurrency,
  timeZone,
  types,
  networks,
}: Definition): Definition {
  return { name, format, columns, fiatCurrency, timeZone, types, networks };
}
