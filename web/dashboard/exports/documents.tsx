/** Numbered receipts and credit notes, by month and kind. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { can } from "../frame/merchant.ts";
import { Link, setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call } from "../frame/service.ts";
import { formatMonth, say } from "../frame/texts.ts";
import { Button, Choice } from "../parts/controls.tsx";
import { Fault, Loading } from "../parts/forms.tsx";
import { Amount, Empty, Screen, Table, Time, USDC } from "../parts/page-parts.tsx";
import { Pager, PastEnd } from "../parts/pager.tsx";
import { Files } from "./files.tsx";
import { useMonthsOfBooks } from "./use-months-of-books.ts";

const PAGE = 50;
const KINDS = ["RECEIPT", "CREDIT_NOTE"] as const;
const NAMES = { RECEIPT: "Receipt", CREDIT_NOTE: "Credit note" } as const;

export function Documents({ query }: ScreenProps) {
  const kind = KINDS.find((one) => one === query.get("kind"));
  const { months } = useMonthsOfBooks();
  const month = months.find((one) => one === query.get("month"));
  const cursor = query.get("page") ?? undefined;
  const loaded = useLoad("GET /v1/documents", { query: { kind, month, cursor, limit: PAGE } });
  const [isMade, setMade] = useState(false);
  const { isBusy, fault, change } = useAction();
  const archive = (of: string) =>
    change(["/v1/transactions/exports"], async () => {
      await call("POST /v1/documents/archive", { body: { month: of }, headers: { prefer: "respond-async" } });
      setMade(true);
    });
  return (
    <Screen
      title={say("Documents")}
      lead={say("A numbered receipt for each confirmed payment, a credit note for each refund.")}
    >
      <section class="panel padded">
        <div class="filter-grid">
          <Choice
            label={say("Month")}
            value={month ?? ""}
            onInput={(text) => setQuery({ month: text, page: undefined })}
            options={[["", say("All")] as const, ...months.map((one) => [one, formatMonth(one)] as const)]}
          />
          <Choice
            label={say("Kind")}
            value={kind ?? ""}
            onInput={(text) => setQuery({ kind: text, page: undefined })}
            options={[["", say("All")] as const, ...KINDS.map((one) => [one, say(NAMES[one])] as const)]}
          />
          {month && can("exports") && (
            <div>
              <Button isBusy={isBusy} onClick={() => archive(month)}>
                {say("The month as ZIP")}
              </Button>
            </div>
          )}
        </div>
        <Fault of={fault} />
      </section>
      {isMade && <Files />}
      <div class="panel">
        <Loading of={loaded} rows={10}>
          {({ documents }) =>
            documents.length === 0 && cursor ? (
              <PastEnd />
            ) : documents.length === 0 ? (
              <Empty title={kind || month ? say("Nothing matches") : say("None yet")}>
                {say("A document appears here a moment after its payment or refund is confirmed.")}
              </Empty>
            ) : (
              <Table
                label={say("Documents")}
                columns={[say("Number"), say("Kind"), say("What for"), say("When"), USDC]}
                isOld={loaded.isOld}
              >
                {documents.map((one) => (
                  <tr key={one.id}>
                    <td class="main">
                      <a
                        href={new URL(one.pdfUrl).pathname + new URL(one.pdfUrl).search}
                        target="_blank"
                        rel="noopener"
                        title="PDF"
                      >
                        <bdi>{one.number}</bdi>
                      </a>
                    </td>
                    <td class="state">
                      <span class={`status ${one.status === "VALID" ? "ok" : "bad"}`}>
                        {one.status === "VALID" ? say(NAMES[one.kind]) : say("Void")}
                      </span>
                    </td>
                    <td class="second">
                      <Link to={`/links/${one.linkId}`}>
                        <bdi>{one.description}</bdi>
                      </Link>
                    </td>
                    <td class="when">
                      <Time of={one.date} />
                    </td>
                    <td class="number">
                      <Amount of={one.amount} sign={one.kind === "CREDIT_NOTE" ? "−" : ""} />
                    </td>
                  </tr>
                ))}
              </Table>
            )
          }
        </Loading>
      </div>
      <Pager cursor={cursor} next={loaded.value?.nextCursor} />
    </Screen>
  );
}
