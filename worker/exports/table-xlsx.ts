/** A table as XLSX: dates are dates and amounts are numbers; text stays text, whatever it begins with. */
import type { TableColumn } from "../../core/domain/table.ts";
import type { TableBatches } from "./table-csv.ts";
import type { ToThread } from "./xlsx-thread.ts";

/** Rows are kept until the file is written: call with as many as memory takes. */
export async function* renderTableXlsx(
  sheet: string,
  columns: readonly TableColumn[],
  batches: TableBatches,
): AsyncGenerator<Uint8Array> {
  const thread = new Worker(new URL("./xlsx-thread.ts", import.meta.url));
  const post = (message: ToThread) => thread.postMessage(message);
  try {
    const written = new Promise<Uint8Array>((resolve, reject) => {
      thread.onmessage = ({ data }: MessageEvent<Uint8Array>) => resolve(data);
      thread.onerror = ({ message }) => reject(new Error(`the spreadsheet was not written: ${message}`));
    });
    // an error while rows are read is thrown at the await below
    written.catch(() => {});
    post({ columns });
    for await (const rows of batches) post({ rows });
    post({ sheet });
    yield await written;
  } finally {
    thread.terminate();
  }
}
