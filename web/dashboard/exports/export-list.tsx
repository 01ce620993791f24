/** Files of the history: created in the background, kept for seven days. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Choice } from "../parts/controls.tsx";
import { CurrencyChoice } from "../parts/currency-choice.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import { Screen } from "../parts/page-parts.tsx";
import { ownZone } from "../parts/time-zone-choice.tsx";
import { daysInZone } from "../transactions/days-in-zone.ts";
import { Filters, isFaulty, readFilters } from "../transactions/filters.tsx";
import { Files } from "./files.tsx";
import { FORMATS, type Format, IMPORTED, PROFILE_NAMES, type Profile } from "./formats.ts";

/** Spreadsheets contain only bookkeeping rows, and those cannot be a document. */
function profilesOf(format: Format): readonly Profile[] {
  if (format === "xlsx" || format === "excel_csv" || IMPORTED.includes(format)) return ["books"];
  return format === "pdf" ? ["standard", "accounting"] : ["standard", "accounting", "books"];
}

export function ExportList({ query }: ScreenProps) {
  const [format, setFormat] = useState<Format>("csv");
  const [wanted, setProfile] = useState<Profile>("standard");
  const profiles = profilesOf(format);
  const [first = "standard"] = profiles;
  const profile = profiles.includes(wanted) ? wanted : first;
  const books = useLoad("GET /v1/settings/books");
  const [wantedCurrency, setCurrency] = useState<string>();
  const currency = wantedCurrency ?? books.value?.fiatCurrency ?? "";
  // so that a month's books are those of its statement
  const timeZone = (profile === "books" && books.value?.timeZone) || ownZone;
  const isZoneUnknown = profile === "books" && !books.value && !books.error;
  const { isBusy, fault, change } = useAction();
  const start = () =>
    change(["/v1/transactions/exports"], async () => {
      const fiat = profile === "books" && currency ? { fiatCurrency: currency } : {};
      const filters = defined(daysInZone(readFilters(query), timeZone));
      const body = { format, profile, timeZone, ...fiat, ...filters };
      await call("POST /v1/transactions/export", { body, headers: { prefer: "respond-async" } });
    });
  return (
    <Screen
      title={say("Exports")}
      lead={say("Files for accounting: exactly the transactions that match the filters.")}
    >
      <section class="panel padded">
        <Form class="" onSubmit={start}>
          <Filters query={query} />
          <div class="filter-grid">
            <Choice
              label={say("Format")}
              value={format}
              onInput={(value) => setFormat(value as Format)}
              options={FORMATS.map(([name, text]) => [name, say(text)])}
            />
            <Choice
              label={say("Columns")}
              value={profile}
              onInput={(value) => setProfile(value as Profile)}
              options={profiles.map((name) => [name, say(PROFILE_NAMES[name])])}
            />
            {profile === "books" && (
              <CurrencyChoice
                label={say("Values in")}
                value={currency}
                onInput={setCurrency}
                none={say("USDC only")}
              />
            )}
            <div>
              <Button kind="main" type="submit" isBusy={isBusy} isOff={isZoneUnknown || isFaulty(query)}>
                {say("Create the file")}
              </Button>
            </div>
          </div>
          <p class="hint">{say("Times in {zone}.", { zone: timeZone })}</p>
          <Fault of={fault} />
        </Form>
      </section>
      <Files />
    </Screen>
  );
}

function defined<Fields extends object>(
  fields: Fields,
): { [Key in keyof Fields]?: Exclude<Fields[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
