/** The stored files, with the progress of those being created. */
import { useEffect } from "preact/hooks";
import { invalidate, useLoad } from "../frame/load.ts";
import { forMerchant } from "../frame/merchant.ts";
import { nameOfNetwork } from "../frame/page-data.ts";
import type { Answer } from "../frame/service.ts";
import {
  formatAmount,
  formatBytes,
  formatCount,
  formatDate,
  formatDateIn,
  say,
  sayCount,
  sayReason,
} from "../frame/texts.ts";
import { Loading, Panel } from "../parts/forms.tsx";
import { Empty, nameOfStatus, Status, Time } from "../parts/page-parts.tsx";
import { TYPE_NAMES } from "../transactions/filters.tsx";
import { FORMATS, PROFILE_NAMES } from "./formats.ts";

type Export = Answer<"GET /v1/transactions/exports">["data"]["exports"][number];
type Contents = NonNullable<Export["contents"]>;

/** By the API at most. */
const LISTED = 100;
/** Only while a file is being created, which no event reports. */
const PROGRESS_EVERY_MS = 1_500;
const FORMAT_NAMES: ReadonlyMap<string, string> = new Map(FORMATS);
const KIND_NAMES = {
  transactions: "Transactions",
  statement: "Statement",
  documents: "Documents",
} as const;

export function Files() {
  const loaded = useLoad("GET /v1/transactions/exports");
  const isMaking =
    loaded.value?.data.exports.some(({ status }) => status === "QUEUED" || status === "RUNNING") ?? false;
  useEffect(() => {
    if (!isMaking) return;
    const timer = setInterval(() => invalidate("/v1/transactions/exports"), PROGRESS_EVERY_MS);
    return () => clearInterval(timer);
  }, [isMaking]);
  return (
    <Panel title={say("Files")}>
      <Loading of={loaded} rows={3}>
        {({ data: { exports: files } }) =>
          files.length === 0 ? (
            <Empty title={say("None yet")}>
              {say("Files that you create appear here when they are ready.")}
            </Empty>
          ) : (
            <>
              <ul class="rows">
                {files.map((file) => (
                  <FileRow key={file.id} file={file} />
                ))}
              </ul>
              {files.length === LISTED && <p class="muted pad">{say("The newest 100 files are listed.")}</p>}
            </>
          )
        }
      </Loading>
    </Panel>
  );
}

function FileRow({ file }: { file: Export }) {
  const { status, progress, format, contents, byteSize, truncated, total, refusal, expiresAt } = file;
  return (
    <li>
      <Status of={status} />
      <span class="what">
        <span>
          {say(FORMAT_NAMES.get(format) ?? format.toUpperCase())}
          {progress.rowsTotal !== null && (
            <span class="muted"> · {sayCount(progress.rowsTotal, "{count} row", "{count} rows")}</span>
          )}
          {byteSize !== null && <span class="muted"> · {formatBytes(byteSize)}</span>}
        </span>
        {contents && <span>{describeContents(contents)}</span>}
        {status === "RUNNING" && progress.rowsTotal !== null && (
          <progress max={progress.rowsTotal} value={progress.rowsDone} aria-label={say("Progress")} />
        )}
        {status === "READY" && (
          <span class="muted">{say("Kept until {date}", { date: formatDate(expiresAt.slice(0, 10)) })}</span>
        )}
        {status === "FAILED" && <span class="why">{sayReason(refusal ?? "service error")}</span>}
        {truncated && total !== null && (
          <span class="muted">
            {say("The newest of {count}: narrow the filters for the others.", { count: formatCount(total) })}
          </span>
        )}
      </span>
      <Time of={file.createdAt} />
      {status === "READY" && (
        <a class="button plain" href={forMerchant(new URL(file.downloadUrl).pathname)} download>
          {say("Download")}
        </a>
      )}
    </li>
  );
}

/** Distinguishes a file from the others: "Transactions · For accounting · 1 Oct 2026 – 31 Oct 2026 · Sent". */
function describeContents(contents: Contents): string {
  const { kind, profile, types, statuses, networks, amountMin, amountMax, search } = contents;
  const parts = [
    say(KIND_NAMES[kind]),
    kind === "transactions" && profile !== "standard" && say(PROFILE_NAMES[profile]),
    describePeriod(contents),
    types.map((type) => say(TYPE_NAMES[type])).join(", "),
    statuses.map(nameOfStatus).join(", "),
    networks.map(nameOfNetwork).join(", "),
    amountMin !== null && say("at least {amount} USDC", { amount: formatAmount(amountMin) }),
    amountMax !== null && say("at most {amount} USDC", { amount: formatAmount(amountMax) }),
    search !== null && say("with “{text}”", { text: search }),
  ];
  return parts.filter(Boolean).join(" · ");
}

function describePeriod({ from, before, timeZone }: Contents): string | false {
  const first = from && formatDateIn(from, timeZone);
  const last = before && formatDateIn(new Date(Date.parse(before) - 1).toISOString(), timeZone);
  if (first && last) return first === last ? first : `${first} – ${last}`;
  if (first) return say("from {date}", { date: first });
  return last ? say("until {date}", { date: last }) : say("all days");
}
