/** Files of the history: made in the background, kept for seven days. */
import { useEffect, useState } from "preact/hooks";
import { invalidate, useLoad } from "../frame/load.ts";
import { forMerchant } from "../frame/merchant.ts";
import type { ScreenProps } from "../frame/screen-props.ts";
import { type Answer, call, messageOf } from "../frame/service.ts";
import { formatBytes, formatCount, say } from "../frame/words.ts";
import { Button, Choice, Notice } from "../parts/controls.tsx";
import { Broken, Empty, Screen, Skeleton, Status, Time } from "../parts/page-parts.tsx";
import { Filters, readFilters } from "../transactions/filters.tsx";

type Export = Answer<"GET /v1/transactions/exports">["data"]["exports"][number];
type Format = "csv" | "json" | "pdf" | "xlsx" | "excel_csv";
type Profile = "standard" | "accounting" | "books";

/** Spreadsheets hold bookkeeping rows alone, and these are no document. */
function profilesOf(format: Format): readonly Profile[] {
  if (format === "xlsx" || format === "excel_csv") return ["books"];
  return format === "pdf" ? ["standard", "accounting"] : ["standard", "accounting", "books"];
}

const PROFILE_NAMES: Record<Profile, string> = {
  standard: "Short",
  accounting: "For accounting",
  books: "For bookkeeping: gross, fee, net",
};

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
/** Only while a file is being made, which no event reports. */
const PROGRESS_EVERY_MS = 1_500;

export function ExportList({ query }: ScreenProps) {
  const [format, setFormat] = useState<Format>("csv");
  const [wanted, setProfile] = useState<Profile>("standard");
  const profiles = profilesOf(format);
  const [first = "standard"] = profiles;
  const profile = profiles.includes(wanted) ? wanted : first;
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const loaded = useLoad("GET /v1/transactions/exports");
  const files = loaded.value?.data.exports;
  const isMaking = files?.some(({ status }) => status === "QUEUED" || status === "RUNNING") ?? false;
  useEffect(() => {
    if (!isMaking) return;
    const timer = setInterval(() => invalidate("/v1/transactions/exports"), PROGRESS_EVERY_MS);
    return () => clearInterval(timer);
  }, [isMaking]);
  const start = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      const body = { format, profile, timeZone: zone, ...defined(readFilters(query)) };
      await call("POST /v1/transactions/export", { body, headers: { prefer: "respond-async" } });
      loaded.retry();
    } catch (error) {
      setFault(messageOf(error));
    }
    setBusy(false);
  };
  return (
    <Screen
      title={say("Exports")}
      lead={say("Files for accounting: exactly the transactions that the filters choose.")}
    >
      <section class="panel padded">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void start();
          }}
        >
          <Filters query={query} />
          <div class="filter-grid">
            <Choice
              label={say("Format")}
              value={format}
              onInput={(value) => setFormat(value as Format)}
              options={[
                ["csv", "CSV"],
                ["xlsx", "XLSX"],
                ["excel_csv", say("CSV for Excel")],
                ["pdf", "PDF"],
                ["json", "JSON"],
              ]}
            />
            <Choice
              label={say("Columns")}
              value={profile}
              onInput={(value) => setProfile(value as Profile)}
              options={profiles.map((name) => [name, say(PROFILE_NAMES[name])])}
            />
            <div>
              <Button kind="main" type="submit" isBusy={isBusy}>
                {say("Make the file")}
              </Button>
            </div>
          </div>
          <p class="hint">{say("Times in {zone}.", { zone })}</p>
          {fault && <Notice kind="bad">{fault}</Notice>}
        </form>
      </section>
      <section class="panel" aria-labelledby="files">
        <h2 id="files">{say("Files of the last 7 days")}</h2>
        {loaded.error && !files ? (
          <Broken loaded={loaded} />
        ) : !files ? (
          <Skeleton rows={3} />
        ) : files.length === 0 ? (
          <Empty title={say("None yet")}>{say("A file that you make appears here when it is ready.")}</Empty>
        ) : (
          <ul class="rows">
            {files.map((file) => (
              <FileRow key={file.id} file={file} />
            ))}
          </ul>
        )}
      </section>
    </Screen>
  );
}

function FileRow({ file }: { file: Export }) {
  const { status, progress, format, byteSize, truncated, total } = file;
  return (
    <li>
      <Status of={status} />
      <span class="what">
        <span>
          {format === "excel_csv" ? "CSV" : format.toUpperCase()}
          {progress.rowsTotal !== null && (
            <span class="muted"> · {say("{count} rows", { count: formatCount(progress.rowsTotal) })}</span>
          )}
          {byteSize !== null && <span class="muted"> · {formatBytes(byteSize)}</span>}
        </span>
        {status === "RUNNING" && progress.rowsTotal !== null && (
          <progress max={progress.rowsTotal} value={progress.rowsDone} aria-label={say("Progress")} />
        )}
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

function defined<Fields extends object>(
  fields: Fields,
): { [Key in keyof Fields]?: Exclude<Fields[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
