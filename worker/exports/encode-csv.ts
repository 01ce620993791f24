/** Records of text as CSV (RFC 4180): lines end with CRLF, and what holds a delimiter, a quote or a line break is quoted. */
import { stringify } from "csv-stringify/sync";

export function encodeCsv(records: readonly (readonly string[])[], delimiter: "," | ";" = ","): string {
  // a line break alone is not the record's delimiter, but it must be quoted all the same
  return stringify(records as string[][], { delimiter, record_delimiter: "\r\n", quoted_match: /[\r\n]/ });
}
