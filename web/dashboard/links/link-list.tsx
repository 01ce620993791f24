/** The merchant's links. Filters and the page are in the address. */

import { useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { navigate, setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { formatCount, say } from "../frame/texts.ts";
import { Button } from "../parts/controls.tsx";
import { Loading } from "../parts/forms.tsx";
import { Empty, nameOfStatus, Screen } from "../parts/page-parts.tsx";
import { Pager, PastEnd } from "../parts/pager.tsx";
import { SearchField } from "../parts/search-field.tsx";
import { LinkRows } from "./link-rows.tsx";
import { NewLink } from "./new-link.tsx";

const PAGE = 50;
const STATUSES = ["ACTIVE", "PENDING", "PAID", "EXPIRED", "CANCELLED"] as const;

export function LinkList({ me, query }: ScreenProps) {
  const status = STATUSES.find((one) => one === query.get("status"));
  const exception = query.get("exception") === "any" ? ("any" as const) : undefined;
  const reference = query.get("reference") ?? undefined;
  const cursor = query.get("page") ?? undefined;
  const stats = useLoad("GET /v1/payment-links/stats");
  const list = useLoad("GET /v1/payment-links", {
    query: { status, cursor, limit: PAGE, ...(exception ? { exception } : { reference }) },
  });
  const count = stats.value;
  const counts: Record<(typeof STATUSES)[number], number | undefined> = {
    ACTIVE: count?.activeLinks,
    PENDING: count?.pendingLinks,
    PAID: count?.paidLinks,
    EXPIRED: count?.expiredLinks,
    CANCELLED: count?.cancelledLinks,
  };
  const isFiltered = Boolean(status || exception || reference);
  const { value } = list;
  return (
    <Screen
      title={say("Links")}
      actions={
        can("links:write") && (
          <Button kind="main" onClick={() => setQuery({ new: "1", open: undefined })}>
            {say("New payment link")}
          </Button>
        )
      }
    >
      <div class="filters">
        <fieldset class="tabs">
          <legend class="hidden">{say("Status")}</legend>
          <Tab
            isOn={!isFiltered}
            text={say("All")}
            count={count?.totalLinks}
            onClick={() => navigate("/links")}
          />
          {STATUSES.map((one) => (
            <Tab
              key={one}
              isOn={status === one}
              text={nameOfStatus(one)}
              count={counts[one]}
              onClick={() => setQuery({ status: one, exception: undefined })}
            />
          ))}
          <Tab
            isOn={exception === "any"}
            text={say("Needs attention")}
            onClick={() => setQuery({ exception: "any", status: undefined, reference: undefined })}
          />
        </fieldset>
        <SearchField
          label={say("Find by reference")}
          value={reference ?? ""}
          onSearch={(text) => setQuery({ reference: text, exception: undefined })}
        />
      </div>
      <div class="panel">
        <Loading of={list} rows={10}>
          {({ links }) =>
            links.length > 0 ? (
              <LinkRows links={links} isOld={list.isOld} />
            ) : cursor ? (
              <PastEnd />
            ) : isFiltered ? (
              <Empty
                title={say("Nothing matches")}
                action={<Button onClick={() => navigate("/links")}>{say("Show all links")}</Button>}
              >
                {say("No link matches these filters.")}
              </Empty>
            ) : (
              <Empty
                title={say("No links yet")}
                action={
                  can("links:write") && (
                    <Button kind="main" onClick={() => setQuery({ new: "1" })}>
                      {say("New payment link")}
                    </Button>
                  )
                }
              >
                {say("A link asks for an amount. Whoever opens it can pay; you see it here immediately.")}
              </Empty>
            )
          }
        </Loading>
      </div>
      <Pager cursor={cursor} next={value?.nextCursor} />
      {query.get("new") === "1" && can("links:write") && (
        <NewLink me={me} onClose={() => setQuery({ new: undefined, open: undefined }, { replace: true })} />
      )}
    </Screen>
  );
}

type TabProps = { isOn: boolean; text: string; count?: number | undefined; onClick: () => void };

function Tab({ isOn, text, count, onClick }: TabProps) {
  return (
    <button type="button" class="tab" aria-pressed={isOn} onClick={onClick}>
      {text}
      {count !== undefined && <span class="count">{formatCount(count)}</span>}
    </button>
  );
}
