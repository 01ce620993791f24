/** The wallet's history. Every filter is in the URL, so that it can be bookmarked, shared and exported. */

import { useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { Link, navigate, setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { formatCount, say, sayCount } from "../frame/texts.ts";
import { Button } from "../parts/controls.tsx";
import { Loading } from "../parts/forms.tsx";
import { Empty, Screen } from "../parts/page-parts.tsx";
import { PastEnd, useListTop } from "../parts/pager.tsx";
import { ownZone } from "../parts/time-zone-choice.tsx";
import { daysInZone } from "./days-in-zone.ts";
import { Filters, readFilters } from "./filters.tsx";
import { TransactionRows } from "./transaction-rows.tsx";
import { TransactionSheet } from "./transaction-sheet.tsx";

const PAGE = 50;
const PAGE_NUMBER = /^[1-9]\d{0,6}$/;

export function TransactionList({ query }: ScreenProps) {
  const filters = readFilters(query);
  const pageNumber = Number(PAGE_NUMBER.exec(query.get("page") ?? "")?.[0] ?? 1);
  const pages = useListTop(pageNumber);
  const offset = (pageNumber - 1) * PAGE;
  const asked = daysInZone(filters, ownZone);
  const loaded = useLoad("GET /v1/transactions", { query: { ...asked, limit: PAGE, offset } });
  const data = loaded.value?.data;
  const isFiltered = Object.values(filters).some((value) => value !== undefined);
  const opened = data?.transactions.find(({ id }) => id === query.get("open"));
  const { total = 0, hasMore = false } = data?.pagination ?? {};
  const exportQuery = new URLSearchParams(query);
  for (const name of ["page", "open"]) exportQuery.delete(name);
  return (
    <Screen
      title={say("Transactions")}
      actions={
        <Link to={`/exports?${exportQuery}`} class="button plain">
          {say("Export this view")}
        </Link>
      }
    >
      <Filters query={query} />
      <div class="panel">
        <Loading of={loaded} rows={10}>
          {({ data: { transactions } }) =>
            transactions.length > 0 ? (
              <TransactionRows transactions={transactions} isOld={loaded.isOld} />
            ) : total > 0 ? (
              <PastEnd />
            ) : isFiltered ? (
              <Empty
                title={say("Nothing matches")}
                action={<Button onClick={() => navigate("/transactions")}>{say("Clear the filters")}</Button>}
              >
                {loaded.error?.message ?? say("No transaction matches these filters.")}
              </Empty>
            ) : (
              <Empty
                title={say("No transactions yet")}
                action={
                  can("links:write") && (
                    <Link to="/links?new=1" class="button main">
                      {say("New payment link")}
                    </Link>
                  )
                }
              >
                {say(
                  "Everything that arrives in your wallet or leaves it appears here, with or without a link.",
                )}
              </Empty>
            )
          }
        </Loading>
      </div>
      {data && data.transactions.length > 0 && (
        <nav class="pager" aria-label={say("Pages")} ref={pages}>
          {total === data.transactions.length ? (
            <p>{sayCount(total, "{count} transaction", "{count} transactions")}</p>
          ) : (
            <>
              <p>
                {say("{from} to {to} of {total}", {
                  from: formatCount(offset + 1),
                  to: formatCount(offset + data.transactions.length),
                  total: `${formatCount(total)}${data.pagination.totalIsLowerBound ? "+" : ""}`,
                })}
              </p>
              <Button
                isOff={pageNumber === 1}
                onClick={() => setQuery({ page: pageNumber > 2 ? String(pageNumber - 1) : undefined })}
              >
                {say("Newer")}
              </Button>
              <Button isOff={!hasMore} onClick={() => setQuery({ page: String(pageNumber + 1) })}>
                {say("Older")}
              </Button>
            </>
          )}
        </nav>
      )}
      {opened && (
        <TransactionSheet
          transaction={opened}
          onClose={() => setQuery({ open: undefined }, { replace: true })}
        />
      )}
    </Screen>
  );
}
