/** A time limit for what one request reads. */
import postgres from "postgres";
import type { Tx } from "./client.ts";

/** Reads that take longer are refused. */
const READING_TIMEOUT_MS = 2_000;
const QUERY_CANCELED = "57014";

/** Runs a read of this transaction within READING_TIMEOUT_MS; throws the error made by `refusal` when it takes longer. */
export async function readInTime<Result>(
  tx: Tx,
  read: () => Promise<Result>,
  refusal: () => Error,
): Promise<Result> {
  try {
    // on its way before what is read: the statements of a transaction run in the order of their calls
    const limited = tx`select set_config('statement_timeout', ${String(READING_TIMEOUT_MS)}, true)`;
    const [result] = await Promise.all([read(), limited.execute()]);
    return result;
  } catch (error) {
    if (!(error instanceof postgres.PostgresError) || error.code !== QUERY_CANCELED) throw error;
    throw refusal();
  }
}
