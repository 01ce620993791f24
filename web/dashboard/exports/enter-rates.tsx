/** Enters the merchant's own rates: one for a range of days, or a file with one per day. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { invalidate } from "../frame/load.ts";
import { setQuery } from "../frame/router.tsx";
import { call } from "../frame/service.ts";
import { formatCount, say, sayCount } from "../frame/texts.ts";
import { Choice, Field, Notice } from "../parts/controls.tsx";
import { CurrencyChoice } from "../parts/currency-choice.tsx";
import { Fault, Form, Panel, Submit } from "../parts/forms.tsx";
import { RATES_MAX, type RateLine, readRates } from "./parse-rates.ts";

const EMPTY = { dateFrom: "", dateTo: "", rate: "" };
const FAULTS_SHOWN = 5;

/** `shown`: the currency of the list, which follows the one that was entered last. */
export function EnterRates({ shown }: { shown: string }) {
  const [chosen, setCurrency] = useState<string>();
  const currency = chosen ?? shown;
  const [isFile, setFile] = useState(false);
  const [fields, setFields] = useState(EMPTY);
  const [lines, setLines] = useState<readonly RateLine[]>([]);
  const [stored, setStored] = useState<number>();
  const action = useAction();
  const change = (given: Partial<typeof EMPTY>) => {
    setStored(undefined);
    setFields({ ...fields, ...given });
  };
  const isReady = lines.length > 0 && lines.length <= RATES_MAX && lines.every(({ fault }) => !fault);
  const store = () =>
    action.run(async () => {
      if (isFile) await call("POST /v1/exchange-rates/own", { body: { currency, rates: lines.map(toRate) } });
      else {
        const dateTo = fields.dateTo || fields.dateFrom;
        const rate = fields.rate.trim().replace(",", ".");
        await call("POST /v1/exchange-rates", {
          body: { currency, dateFrom: fields.dateFrom, dateTo, rate },
        });
      }
      invalidate("/v1/exchange-rates");
      setStored(isFile ? lines.length : 1);
      setFields(EMPTY);
      setLines([]);
      if (currency !== shown) setQuery({ currency });
    });
  return (
    <Panel title={say("Enter rates")} isPadded>
      <Form class="form slim" onSubmit={store}>
        <div class="pair">
          <CurrencyChoice label={say("Currency")} value={currency} onInput={setCurrency} />
          <Choice
            label={say("How")}
            value={isFile ? "file" : ""}
            onInput={(text) => {
              setFile(text === "file");
              setLines([]);
            }}
            options={[
              ["", say("For some days")],
              ["file", say("From a CSV file")],
            ]}
          />
        </div>
        {isFile ? (
          <>
            <div class="file">
              <label for="rates-file">{say("CSV file")}</label>
              <input
                id="rates-file"
                type="file"
                accept=".csv,.tsv,.txt,text/csv,text/plain"
                required={lines.length === 0}
                // choosing the same file again, corrected meanwhile, counts as a new choice
                onClick={(event) => {
                  event.currentTarget.value = "";
                  setLines([]);
                }}
                onChange={(event) => {
                  setStored(undefined);
                  const [file] = event.currentTarget.files ?? [];
                  if (file) void action.run(async () => setLines(readRates(await file.text())));
                }}
              />
            </div>
            <p class="hint">{say("One line per day: 2026-10-31, a comma or semicolon, and the rate.")}</p>
            <Lines lines={lines} />
          </>
        ) : (
          <div class="pair">
            <Field
              label={say("First day")}
              type="date"
              required
              value={fields.dateFrom}
              onInput={(dateFrom) => change({ dateFrom })}
            />
            <Field
              label={say("Last day")}
              type="date"
              value={fields.dateTo}
              onInput={(dateTo) => change({ dateTo })}
              hint={say("Leave empty for the first day only.")}
            />
            <Field
              label={say("One USDC is")}
              unit={currency}
              required
              value={fields.rate}
              onInput={(rate) => change({ rate })}
              inputMode="decimal"
              pattern="[0-9]{1,12}([.,][0-9]{1,10})?"
              placeholder="0.9231"
              autocomplete="off"
            />
          </div>
        )}
        <Submit action={action} text={say("Save")} isOff={isFile && !isReady} />
        {stored !== undefined && <Notice kind="ok">{say("Saved")}</Notice>}
      </Form>
    </Panel>
  );
}

const toRate = ({ date, rate }: RateLine) => ({ date, rate });

/** What a file contains: how many days, or which lines are invalid. */
function Lines({ lines }: { lines: readonly RateLine[] }) {
  if (lines.length === 0) return null;
  if (lines.length > RATES_MAX) {
    const values = { count: formatCount(lines.length), max: formatCount(RATES_MAX) };
    return <Fault of={say("{count} lines: at most {max} fit into one file.", values)} />;
  }
  const faults = lines.filter(({ fault }) => fault);
  if (faults.length === 0)
    return <p class="muted">{sayCount(lines.length, "{count} day", "{count} days")}</p>;
  return (
    <Notice kind="bad">
      {faults.slice(0, FAULTS_SHOWN).map(({ number, fault = "" }) => (
        <p key={number}>
          {say("Line {number}", { number })}: {say(fault)}
        </p>
      ))}
    </Notice>
  );
}
