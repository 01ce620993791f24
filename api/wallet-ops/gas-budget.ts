/** Limits what one user's operations may cost the relayers per day; checked before anything is prepared. */
import { ServiceError } from "../../core/domain/errors.ts";
import { readSendUse } from "../../db/wallet-ops/operations.ts";
import type { ApiDeps } from "../http/deps.ts";

/** Operations whose calls failed on the chain within an hour: the money is moved between simulation and block. */
const FAILURES_MAX = 3;

/** Throws RATE_LIMITED. */
export async function refuseOverGasBudget({ sql, config }: ApiDeps, userId: string): Promise<void> {
  const use = await readSendUse(sql, userId);
  const waitS = use.failures >= FAILURES_MAX ? use.secondsOfPauseLeft : use.secondsOfDayLeft;
  if (use.failures < FAILURES_MAX && use.gas < config.sendGasPerDay) return;
  throw new ServiceError(
    "RATE_LIMITED",
    use.failures >= FAILURES_MAX
      ? "Several of your sends failed on the chain within the last hour; try again later"
      : "Your sends have used up the gas that the service pays in a day",
    { details: { issue: "gas_budget" }, headers: { "retry-after": String(Math.max(1, waitS)) } },
  );
}
