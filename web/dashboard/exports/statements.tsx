/** Statements of a wallet: for any month or days on request, and automatically for each month if the settings say so. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { can, forMerchant } from "../frame/merchant.ts";
import { nameOfNetwork } from "../frame/page-data.ts";
import { Link } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call, type Given } from "../frame/service.ts";
import { formatMonth, say, sayReason } from "../frame/texts.ts";
import { Button, Choice, Field } from "../parts/controls.tsx";
import { Fault, Form, Loading, Panel } from "../parts/forms.tsx";
import { Empty, Screen, Status } from "../parts/page-parts.tsx";
import { Files } from "./files.tsx";
import { useMonthsOfBooks } from "./use-months-of-books.ts";

type Format = NonNullable<Given<"POST /v1/statements">["body"]>["format"];
type Network = NonNullable<Given<"POST /v1/statements">["body"]>["network"];

const FORMATS: readonly (readonly [Format, string])[] = [
  ["pdf", "PDF"],
  ["csv", "CSV"],
  ["xlsx", "XLSX"],
  ["excel_csv", "CSV for Excel"],
  ["camt053", "camt.053"],
  ["json", "JSON"],
];
/** Instead of a month. */
const DAYS = "days";

export function Statements({ me }: ScreenProps) {
  return (
    <Screen
      title={say("Statements")}
      lead={say("Opening balance, every movement, closing balance, and whether the chain agrees.")}
    >
      <NewStatement networks={me.wallets.map(({ network }) => network)} />
      <Monthly />
      <Files />
    </Screen>
  );
}

function NewStatement({ networks }: { networks: readonly Network[] }) {
  const { months, timeZone } = useMonthsOfBooks();
  const [network, setNetwork] = useState<Network>(networks[0] ?? "base");
  const [chosen, setMonth] = useState<string>();
  const month = chosen ?? months[1] ?? "";
  const [days, setDays] = useState({ dateFrom: "", dateTo: "" });
  const [format, setFormat] = useState<Format>("pdf");
  const { isBusy, fault, change } = useAction();
  const make = () =>
    change(["/v1/transactions/exports"], async () => {
      const body = { format, network, ...(month === DAYS ? days : { month }) };
      await call("POST /v1/statements", { body, headers: { prefer: "respond-async" } });
    });
  return (
    <section class="panel padded">
      <Form class="" onSubmit={make}>
        <div class="filter-grid">
          {networks.length > 1 && (
            <Choice
              label={say("Wallet")}
              value={network}
              onInput={(value) => setNetwork(value as Network)}
              options={networks.map((id) => [id, nameOfNetwork(id)])}
            />
          )}
          <Choice
            label={say("Period")}
            value={month}
            onInput={setMonth}
            options={[
              ...months.map((one) => [one, formatMonth(one)] as const),
              [DAYS, say("From day to day")] as const,
            ]}
          />
          {month === DAYS && (
            <>
              <Field
                label={say("First day")}
                type="date"
                required
                value={days.dateFrom}
                onInput={(dateFrom) => setDays({ ...days, dateFrom })}
              />
              <Field
                label={say("Last day")}
                type="date"
                required
                value={days.dateTo}
                onInput={(dateTo) => setDays({ ...days, dateTo })}
              />
            </>
          )}
          <Choice
            label={say("Format")}
            value={format}
            onInput={(value) => setFormat(value as Format)}
            options={FORMATS.map(([name, text]) => [name, say(text)])}
          />
          <div>
            <Button kind="main" type="submit" isBusy={isBusy}>
              {say("Create the statement")}
            </Button>
          </div>
        </div>
        {timeZone && <p class="hint">{say("Days begin in {zone}.", { zone: timeZone })}</p>}
        <Fault of={fault} />
      </Form>
    </section>
  );
}

function Monthly() {
  const loaded = useLoad("GET /v1/statements");
  return (
    <Panel title={say("Monthly statements")}>
      <Loading of={loaded} rows={3}>
        {({ data: { statements } }) =>
          statements.length === 0 ? (
            <Empty
              title={say("None yet")}
              action={can("settings:write") && <Link to="/settings">{say("Settings")}</Link>}
            >
              {say(
                "If the settings say so, a statement of each wallet is created after the end of every month.",
              )}
            </Empty>
          ) : (
            <ul class="rows">
              {statements.map(({ month, network, status, reason, willRetry, pdfUrl, csvUrl }) => (
                <li key={`${month} ${network}`}>
                  <Status of={status === "IN_PROGRESS" ? "RUNNING" : status} />
                  <span class="what">
                    <span>{formatMonth(month)}</span>
                    <span class="muted">{nameOfNetwork(network)}</span>
                    {reason && (
                      <span class="why">
                        {willRetry
                          ? say("Service error; it will be retried automatically.")
                          : sayReason(reason)}
                      </span>
                    )}
                  </span>
                  {[["PDF", pdfUrl] as const, ["CSV", csvUrl] as const].map(
                    ([name, url]) =>
                      url &&
                      status !== "IN_PROGRESS" && (
                        <a
                          key={name}
                          class="button plain"
                          href={forMerchant(new URL(url).pathname)}
                          download
                          aria-label={`${name}, ${formatMonth(month)}`}
                        >
                          {name}
                        </a>
                      ),
                  )}
                </li>
              ))}
            </ul>
          )
        }
      </Loading>
    </Panel>
  );
}
