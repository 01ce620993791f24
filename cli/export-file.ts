/** `export`: the history as a file, or on standard output when it is text. */
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Operations } from "../sdk/wire.ts";
import { UsageError } from "./arguments.ts";
import type { Command } from "./settings.ts";

type Body = Operations["exportTransactions"]["body"];

const FORMATS = ["csv", "json", "pdf", "xlsx", "excel_csv"] as const;
const TEXTS: readonly string[] = ["csv", "json", "excel_csv"];

export const exportFile: Command = async (given, { service, folder }, output) => {
  const format = FORMATS.find((one) => one === (given.text("format") ?? "csv"));
  if (!format) throw new UsageError(`--format must be one of ${FORMATS.join(", ")}`);
  const out = given.text("out");
  if (out === undefined && !TEXTS.includes(format))
    throw new UsageError(`--format ${format} needs --out FILE`);
  const statuses = given.all("status").map((status) => status.toUpperCase());
  const body = {
    format,
    ...optional("profile", given.text("profile")),
    ...optional("timeZone", given.text("time-zone")),
    ...optional("dateFrom", given.text("from")),
    ...optional("dateTo", given.text("to")),
    ...(statuses.length === 0 ? {} : { statuses }),
  } as Body;
  const { id } = await service.exports.start(body);
  const { progress, total, truncated } = await service.exports.waitUntilReady(id);
  const bytes = Buffer.from(await (await service.exports.download(id)).arrayBuffer());
  if (truncated)
    output.note(`Only ${progress.rowsTotal} of ${total} transactions: pass --from and --to for the others.`);
  if (out === undefined) {
    process.stdout.write(bytes);
    return 0;
  }
  const file = resolve(folder, out);
  await writeFile(file, bytes);
  output.value({ file, format, bytes: bytes.length, truncated }, () => `${file} (${bytes.length} bytes)`);
  return 0;
};

function optional(name: string, value: string | undefined) {
  return value === undefined ? {} : { [name]: value };
}
