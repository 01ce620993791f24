/**
 * Reads the configured sources of exchange rates. Runs every minute, and reads each source that is due: hourly, and sooner after a
 * failure. Nothing of a faulty file is stored; the error is shown with the source.
 */
import { parseRateFile, RateFileError } from "../../../core/domain/rate-file.ts";
import type { Log } from "../../../core/runtime/log.ts";
import { noteSourceError, storeRates, takeSourceTurn } from "../../../db/exports/exchange-rates.ts";
import type { Sql } from "../../../db/postgres/client.ts";
import type { RateSourceSetting, WorkerConfig } from "../../config.ts";
import { getFile, WebhookError } from "../../webhooks/public-request.ts";

export type RatesDeps = {
  sql: Sql;
  log: Log;
  config: Pick<WorkerConfig, "rateSources" | "webhookPrivateTargets">;
};

const EVERY_S = 3_600;
const RETRY_S = 300;

/** Throws errors caused by neither the source nor the file. */
export async function fetchRates(deps: RatesDeps, now = new Date()): Promise<void> {
  for (const source of deps.config.rateSources)
    if (await takeSourceTurn(deps.sql, source.name, { everyS: EVERY_S, retryS: RETRY_S }))
      await fetchSource(deps, source, now);
}

async function fetchSource(
  { sql, log, config }: RatesDeps,
  { name, url }: RateSourceSetting,
  now: Date,
): Promise<void> {
  try {
    const text = await getFile(new URL(url), { allowPrivate: config.webhookPrivateTargets });
    const rates = parseRateFile(text, now.toISOString().slice(0, 10));
    const stored = await sql.begin((tx) => storeRates(tx, name, rates));
    log.info({ source: name, read: rates.length, ...stored }, "exchange rates read");
  } catch (error) {
    const isForeign =
      error instanceof WebhookError || error instanceof RateFileError || error instanceof RangeError;
    if (!isForeign) throw error;
    await noteSourceError(sql, name, error.message);
    log.warn({ source: name, reason: error.message }, "exchange rates could not be read");
  }
}
