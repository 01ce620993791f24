/**
 * Refuses a send or refund when the daily gas budget of its user or of all sends on the network is used up,
 * or when three of the user's operations failed within the hour. Checked at preparation, never later. The limits: core/runtime/relay-limits-env.ts.
 */
import { ServiceError } from "../../core/domain/errors.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { judgeBudget } from "../../core/domain/relay-budget.ts";
import { SEND_FAILURES_MAX } from "../../core/domain/wallet-operation.ts";
import { findBudget } from "../../db/relays/budgets.ts";
import { readDailyGasUsage } from "../../db/wallet-ops/daily-gas-usage.ts";
import type { ApiDeps } from "../http/deps.ts";

/** Retry-After while the budget is only reserved by pending operations. */
const HELD_RETRY_S = 10;
const DAY_S = 86_400;

/** The user's own limits: today's usage, and the pause after failures. Throws RATE_LIMITED. */
export async function refuseOverGasBudget(
  { sql, config }: Pick<ApiDeps, "sql" | "config">,
  userId: string,
): Promise<void> {
  const use = await readDailyGasUsage(sql, userId);
  if (use.failures >= SEND_FAILURES_MAX)
    throw overBudget(
      "Several of your sends failed on the chain within the last hour; try again later",
      use.secondsOfPauseLeft,
    );
  if (use.gas >= config.sendGasPerDay)
    throw overBudget("Your sends have used up the gas that the service pays for per day", secondsOfDayLeft());
}

/** The limit of all sends on a network. `gas`: the operation's gas limit. Throws RATE_LIMITED. */
export async function refuseOverNetworkBudget(
  { sql, config }: Pick<ApiDeps, "sql" | "config">,
  network: NetworkId,
  gas: bigint,
): Promise<void> {
  const budget = await findBudget(sql, { network, scope: "SENDS", subject: network });
  const verdict = judgeBudget({ ...budget, maximum: config.sendGasTotalPerDay ?? null }, gas);
  if (verdict === "fits") return;
  throw overBudget(
    `The gas budget of the service for sends on ${network} is used up for now`,
    verdict === "held" ? HELD_RETRY_S : secondsOfDayLeft(),
  );
}

/** Budgets are counted by UTC day. */
function secondsOfDayLeft(): number {
  return DAY_S - (Math.floor(Date.now() / 1_000) % DAY_S);
}

function overBudget(message: string, waitS: number) {
  return new ServiceError("RATE_LIMITED", message, {
    details: { issue: "gas_budget" },
    headers: { "retry-after": String(Math.max(1, waitS)) },
  });
}
