/** The SQLSTATE of a database's error: it says what kind of failure it was, and carries no values of rows as the message does. */
export function sqlStateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== "PostgresError" || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
