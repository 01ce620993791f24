/** Records of text as CSV (RFC 4180): lines end with CRLF, and fields with a delimiter, quote or line break are quoted. */
import { stringify } from "csv-stringify/sync";

export function encodeCsv(records: readonly (readonly string[])[], delimiter: "," | ";" = ","): string {
  // a lone line feed is not the record delimiter, but must be quoted too
  return stringify(records as string[][], { delimiter, record_delimiter: "\r\n", quoted_match: /[\r\n]/ });
}
