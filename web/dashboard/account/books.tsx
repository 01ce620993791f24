/** Bookkeeping settings: what statements, receipts and exports print about the merchant, and their time zone and currency. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { invalidate, useLoad } from "../frame/load.ts";
import { type Answer, call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Check, Choice, Field, Notice } from "../parts/controls.tsx";
import { CurrencyChoice } from "../parts/currency-choice.tsx";
import { Form, Loading, Panel, Submit } from "../parts/forms.tsx";
import { TimeZoneChoice } from "../parts/time-zone-choice.tsx";
import { Datev } from "./datev.tsx";

type Settings = Answer<"GET /v1/settings/books">;

const LANGUAGES = [
  ...["en", "es", "pt-BR", "fr", "de", "tr", "ar", "hi", "id", "vi", "zh-Hans"],
] as Settings["documentLanguage"][];
/** The name its readers use. */
const ownName = (tag: string) => {
  const name = new Intl.DisplayNames(tag, { type: "language" }).of(tag) ?? tag;
  return name.charAt(0).toLocaleUpperCase(tag) + name.slice(1);
};

/** The rates that the merchant enters. */
const OWN = "own";

export function Books() {
  const loaded = useLoad("GET /v1/settings/books");
  return (
    <Panel title={say("Books")} isPadded>
      <Loading of={loaded} rows={4}>
        {(settings) => <BooksForm settings={settings} />}
      </Loading>
    </Panel>
  );
}

function BooksForm({ settings }: { settings: Settings }) {
  const [given, setGiven] = useState(settings);
  const [isSaved, setSaved] = useState(false);
  const sources = useLoad("GET /v1/exchange-rates/sources");
  const action = useAction();
  const change = (fields: Partial<Settings>) => {
    setGiven({ ...given, ...fields });
    setSaved(false);
  };
  const save = async () => {
    const isDone = await action.run(async () => {
      const stored = await call("PATCH /v1/settings/books", { body: given });
      setGiven(stored);
      invalidate("/v1/settings/books");
    });
    setSaved(isDone);
  };
  const names = sources.value?.data.sources.map(({ name }) => name) ?? [];
  return (
    <Form class="form slim" onSubmit={save}>
      <Field
        label={say("Legal name")}
        value={given.legalName ?? ""}
        onInput={(text) => change({ legalName: text || null })}
        maxLength={200}
        autocomplete="organization"
        hint={say("On receipts and statements, instead of the name that payers see.")}
      />
      <Field
        label={say("Postal address")}
        value={given.postalAddress ?? ""}
        onInput={(text) => change({ postalAddress: text || null })}
        maxLength={500}
        isLong
      />
      <Field
        label={say("Tax ID")}
        value={given.taxId ?? ""}
        onInput={(text) => change({ taxId: text || null })}
        maxLength={50}
        hint={say("For example a VAT number.")}
      />
      <TimeZoneChoice
        label={say("Time zone of the books")}
        value={given.timeZone}
        onInput={(timeZone) => change({ timeZone })}
      />
      <Choice
        label={say("Language of receipts when the payer's is not known")}
        value={given.documentLanguage}
        onInput={(text) => {
          const documentLanguage = LANGUAGES.find((tag) => tag === text);
          if (documentLanguage) change({ documentLanguage });
        }}
        options={LANGUAGES.map((tag) => [tag, ownName(tag)])}
      />
      <CurrencyChoice
        label={say("Currency of the books")}
        value={given.fiatCurrency ?? ""}
        onInput={(text) => change({ fiatCurrency: text || null })}
        none={say("USDC only")}
      />
      {given.fiatCurrency && (
        <>
          <Choice
            label={say("Exchange rates")}
            value={given.rateSource}
            onInput={(rateSource) => change({ rateSource })}
            options={[...new Set([given.rateSource, ...names, OWN])].map((name) => [
              name,
              name === OWN ? say("Your own rates") : name.toUpperCase(),
            ])}
          />
          <Choice
            label={say("Value of one USDC")}
            value={given.usdcRate}
            onInput={(text) => change({ usdcRate: text === "source" ? "source" : "par" })}
            options={[
              ["par", say("One US dollar")],
              ["source", say("What the source publishes")],
            ]}
          />
        </>
      )}
      <Check
        label={say("Monthly statements")}
        isOn={given.monthlyStatements}
        onInput={(monthlyStatements) => change({ monthlyStatements })}
        hint={say("For each wallet, as PDF and CSV, announced by mail after each month.")}
      />
      <Datev of={given.datev} onInput={(datev) => change({ datev })} />
      <Submit action={action} text={say("Save")} isOff={isSaved} />
      {isSaved && <Notice kind="ok">{say("Saved")}</Notice>}
    </Form>
  );
}
