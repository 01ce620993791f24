/**
 * What our statements and the drivers' parsers rely on, whatever is set for the server, the database or the role: dates in ISO form, bytes in
 * hex, days and months of UTC where a statement names no zone, and transactions that see what others have committed meanwhile.
 */
export const SESSION_SETTINGS = {
  DateStyle: "ISO, MDY",
  IntervalStyle: "postgres",
  TimeZone: "UTC",
  bytea_output: "hex",
  default_transaction_isolation: "read committed",
} as const;

/** The same as command line options of a connection, for the queue's driver. */
export const SESSION_OPTIONS = Object.entries(SESSION_SETTINGS)
  .map(([name, value]) => `-c ${name}=${value.replaceAll(" ", "\\ ")}`)
  .join(" ");
