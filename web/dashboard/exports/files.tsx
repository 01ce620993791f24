/** The files that are kept, with the progress of those that are being made. */
import { useEffect } from "preact/hooks";
import { invalidate, useLoad } from "../frame/load.ts";
import { forMerchant } from "../frame/merchant.ts";
import type { Answer } from "../frame/service.ts";
import { formatBytes, formatCount, formatDate, say, sayCount } from "../frame/texts.ts";
import { Loading, Panel } from "../parts/forms.tsx";
import { Empty, Status, Time } from "../parts/page-parts.tsx";

type Export = Answer<"GET /v1/transactions/exports">["data"]["exports"][number];

/** Only while a file is being made, which no event reports. */
const PROGRESS_EVERY_MS = 1_500;
const FORMAT_NAMES: Readonly<Record<string, string>> = {
  excel_csv: "CSV",
  xero_csv: "Xero",
  quickbooks_csv: "QuickBooks",
};

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
              {say("A file that you make appears here when it is ready.")}
            </Empty>
          ) : (
            <ul class="rows">
              {files.map((file) => (
                <FileRow key={file.id} file={file} />
              ))}
            </ul>
          )
        }
      </Loading>
    </Panel>
  );
}

function FileRow({ file }: { file: Export }) {
  const { status, progress, format, byteSize, truncated, total, refusal, expiresAt } = file;
  return (
    <li>
      <Status of={status} />
      <span class="what">
        <span>
          {FORMAT_NAMES[format] ?? format.toUpperCase()}
          {progress.rowsTotal !== null && (
            <span class="muted"> · {sayCount(progress.rowsTotal, "{count} row", "{count} rows")}</span>
          )}
          {byteSize !== null && <span class="muted"> · {formatBytes(byteSize)}</span>}
        </span>
        {status === "RUNNING" && progress.rowsTotal !== null && (
          <progress max={progress.rowsTotal} value={progress.rowsDone} aria-label={say("Progress")} />
        )}
        {status === "READY" && (
          <span class="muted">{say("Kept until {date}", { date: formatDate(expiresAt.slice(0, 10)) })}</span>
        )}
        {refusal && <span class="muted">{refusal}</span>}
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
