/** The SQLSTATE of a database error, which identifies the kind of failure and, unlike the message, contains no row values. */
export function sqlStateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== "PostgresError" || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
