/** The history's filters, read from the URL and written to it. */
import { nameOfNetwork, page } from "../frame/page-data.ts";
import { setQuery } from "../frame/router.tsx";
import type { Given } from "../frame/service.ts";
import { groupsWithPoint, say } from "../frame/texts.ts";
import { faultOfAmount } from "../parts/amount-fault.ts";
import { Choice, Field } from "../parts/controls.tsx";
import { nameOfStatus } from "../parts/page-parts.tsx";
import { SearchField } from "../parts/search-field.tsx";

export type TransactionFilters = Pick<
  NonNullable<Given<"GET /v1/transactions">["query"]>,
  "types" | "statuses" | "networks" | "dateFrom" | "dateTo" | "search" | "amountMin" | "amountMax"
>;

const TYPES = ["PAYMENT_LINK", "RECEIVE", "SEND"] as const;
const STATUSES = ["PENDING", "DETECTED", "CONFIRMED", "FAILED", "ORPHANED"] as const;
export const TYPE_NAMES = { PAYMENT_LINK: "Paid links", RECEIVE: "Other received", SEND: "Sent" } as const;
const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** What was typed; while it ends with a decimal point, the number before it. */
const amountIn = (query: URLSearchParams, name: string) =>
  (query.get(name) ?? "").trim().replace(/[.,]$/, "");

function faultIn(query: URLSearchParams, name: string): string | undefined {
  const typed = amountIn(query, name);
  return typed ? faultOfAmount(typed, groupsWithPoint) : undefined;
}

/** An amount cannot be read: until it is corrected, the filters select more than what was meant. */
export const isFaulty = (query: URLSearchParams) =>
  Boolean(faultIn(query, "amountMin") ?? faultIn(query, "amountMax"));

/** Anything that is not a filter is ignored: a URL can be typed manually. */
export function readFilters(query: URLSearchParams): TransactionFilters {
  const listOf = <Value extends string>(name: string, known: readonly Value[]) => {
    const found = known.filter((value) => query.get(name)?.split(",").includes(value));
    return found.length > 0 ? found : undefined;
  };
  const textOf = (name: string, pattern: RegExp) => {
    const text = query.get(name) ?? "";
    return pattern.test(text) ? text : undefined;
  };
  const amountOf = (name: string) =>
    ((!faultIn(query, name) && amountIn(query, name).replace(",", ".")) || undefined) as number | undefined;
  return {
    types: listOf("types", TYPES),
    statuses: listOf("statuses", STATUSES),
    networks: listOf(
      "networks",
      page.networks.map(({ id }) => id),
    ),
    dateFrom: textOf("dateFrom", DATE),
    dateTo: textOf("dateTo", DATE),
    search: query.get("search") || undefined,
    amountMin: amountOf("amountMin"),
    amountMax: amountOf("amountMax"),
  };
}

export function Filters({ query }: { query: URLSearchParams }) {
  const value = (name: string) => query.get(name) ?? "";
  const set = (name: string) => (text: string) => setQuery({ [name]: text });
  const typed = (name: string) => (text: string) => setQuery({ [name]: text }, { replace: true });
  const errorOf = (name: string) => say(faultIn(query, name) ?? "");
  return (
    <>
      <div class="filters">
        <SearchField
          label={say("Search description or hash")}
          value={value("search")}
          onSearch={set("search")}
        />
      </div>
      <div class="filter-grid">
        <Choice
          label={say("What")}
          value={value("types")}
          onInput={set("types")}
          options={[["", say("Everything")], ...TYPES.map((type) => [type, say(TYPE_NAMES[type])] as const)]}
        />
        <Choice
          label={say("Status")}
          value={value("statuses")}
          onInput={set("statuses")}
          options={[["", say("Any")], ...STATUSES.map((status) => [status, nameOfStatus(status)] as const)]}
        />
        <Field label={say("From")} type="date" value={value("dateFrom")} onInput={set("dateFrom")} />
        <Field label={say("To")} type="date" value={value("dateTo")} onInput={set("dateTo")} />
        <Field
          label={say("At least")}
          unit="USDC"
          value={value("amountMin")}
          onInput={typed("amountMin")}
          inputMode="decimal"
          error={errorOf("amountMin")}
        />
        <Field
          label={say("At most")}
          unit="USDC"
          value={value("amountMax")}
          onInput={typed("amountMax")}
          inputMode="decimal"
          error={errorOf("amountMax")}
        />
        {page.networks.length > 1 && (
          <Choice
            label={say("Network")}
            value={value("networks")}
            onInput={set("networks")}
            options={[["", say("Any")], ...page.networks.map(({ id }) => [id, nameOfNetwork(id)] as const)]}
          />
        )}
      </div>
    </>
  );
}
