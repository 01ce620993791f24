/** The merchant's own exchange rates: entered for days or from a file, listed by currency, removed. */
import { useState } from "preact/hooks";
import { useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { Link, setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { type Answer, call } from "../frame/service.ts";
import { formatDate, say, sayCount } from "../frame/texts.ts";
import { Confirm } from "../parts/confirm-dialog.tsx";
import { Button, Choice, Notice } from "../parts/controls.tsx";
import { Loading, Panel } from "../parts/forms.tsx";
import { Empty, Screen } from "../parts/page-parts.tsx";
import { Pager, PastEnd } from "../parts/pager.tsx";
import { EnterRates } from "./enter-rates.tsx";

type Period = Answer<"GET /v1/exchange-rates/own">["data"]["periods"][number];

/** The bookkeeping currency where the settings name none. */
const DEFAULT_CURRENCY = "EUR";

export function Rates({ query }: ScreenProps) {
  const books = useLoad("GET /v1/settings/books");
  const currency = query.get("currency") ?? books.value?.fiatCurrency ?? DEFAULT_CURRENCY;
  const isUsed = books.value?.rateSource === "own";
  return (
    <Screen
      title={say("Exchange rates")}
      lead={say(
        "Your own rates, for example those that your tax office publishes: what one USDC was worth on a day.",
      )}
    >
      {books.value && !isUsed && (
        <Notice kind="info">
          <p>
            {say(
              "Your books use the rates of {source}. Your own apply when the settings name them as the source.",
              { source: books.value.rateSource.toUpperCase() },
            )}
          </p>
          {can("settings:write") && <Link to="/settings">{say("Settings")}</Link>}
        </Notice>
      )}
      <EnterRates shown={currency} />
      <OwnRates currency={currency} before={query.get("page") ?? undefined} />
    </Screen>
  );
}

function OwnRates({ currency, before }: { currency: string; before: string | undefined }) {
  const loaded = useLoad("GET /v1/exchange-rates/own", { query: { currency, before } });
  const [removing, setRemoving] = useState<Period>();
  const { currencies = [], nextBefore } = loaded.value?.data ?? {};
  const known = [...new Set([currency, ...currencies.map((one) => one.currency)])].toSorted();
  const countOf = (code: string) => currencies.find((one) => one.currency === code)?.days ?? 0;
  return (
    <Panel title={say("Your rates")}>
      {known.length > 1 && (
        <div class="padded top-less">
          <Choice
            label={say("Currency")}
            value={currency}
            onInput={(code) => setQuery({ currency: code })}
            options={known.map((code) => [
              code,
              `${code} · ${sayCount(countOf(code), "{count} day", "{count} days")}`,
            ])}
          />
        </div>
      )}
      <Loading of={loaded} rows={4}>
        {({ data: { periods } }) =>
          periods.length === 0 && before ? (
            <PastEnd />
          ) : periods.length === 0 ? (
            <Empty title={say("None yet")}>
              {say("Rates of {currency} that you enter appear here.", { currency })}
            </Empty>
          ) : (
            <ul class="rows">
              {periods.map((period) => (
                <li key={period.dateFrom}>
                  <span class="what">
                    <strong>
                      {period.rate} {currency}
                    </strong>
                    <span class="muted">{daysOf(period)}</span>
                  </span>
                  <Button
                    label={say("Remove the rate of {days}", { days: daysOf(period) })}
                    onClick={() => setRemoving(period)}
                  >
                    {say("Remove")}
                  </Button>
                </li>
              ))}
            </ul>
          )
        }
      </Loading>
      <Pager cursor={before} next={nextBefore} />
      {removing && (
        <Confirm
          title={say("Remove the rate of {days}", { days: daysOf(removing) })}
          word={say("Remove")}
          work={() => {
            const { dateFrom, dateTo } = removing;
            return call("POST /v1/exchange-rates", { body: { currency, dateFrom, dateTo, rate: null } });
          }}
          changes={["/v1/exchange-rates"]}
          onClose={() => setRemoving(undefined)}
        >
          {say(
            "Movements of these days then have the rate of the last day before them, if it is at most seven days old, or none.",
          )}
        </Confirm>
      )}
    </Panel>
  );
}

function daysOf({ dateFrom, dateTo }: Pick<Period, "dateFrom" | "dateTo">): string {
  return dateFrom === dateTo ? formatDate(dateFrom) : `${formatDate(dateFrom)} – ${formatDate(dateTo)}`;
}
