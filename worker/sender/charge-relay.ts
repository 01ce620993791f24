/** What a new transaction counts for in each budget: its fee at the offer, its merchants' gas, and an unknown account's gas at risk. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { type Charge, findMerchantBudgets, reserveCharges } from "../../db/relays/budgets.ts";
import type { WorkerConfig } from "../config.ts";

export type RelayLimits = Pick<
  WorkerConfig,
  "relayDailyFeeMaxWei" | "relayGasPerMerchantPerDay" | "relayRevertedGasPerDay"
>;

/** Reserves it in the transaction that signs, after everything else in it. Throws BudgetExceededError: nothing may be stored then. */
export async function chargeRelay(
  tx: Tx,
  relay: {
    relayId: bigint;
    network: NetworkId;
    gas: bigint;
    maxFeePerGas: bigint;
    paymentIds: readonly string[];
    /** Of a contract payer whose code is not known to be harmless. */
    implementation?: string | undefined;
    limits: RelayLimits;
  },
): Promise<void> {
  const { relayId, network, gas, limits, implementation } = relay;
  const fee: Charge = {
    ...{ scope: "FEES", subject: network, items: 1, amount: gas * relay.maxFeePerGas },
    maximum: limits.relayDailyFeeMaxWei ?? null,
  };
  const reverted: Charge[] =
    implementation === undefined
      ? []
      : [
          {
            ...{ scope: "REVERTED", subject: implementation, items: 1, amount: gas },
            maximum: limits.relayRevertedGasPerDay,
          },
        ];
  const merchants = await merchantCharges(tx, relay);
  await reserveCharges(tx, { relayId, network, charges: [fee, ...merchants, ...reverted] });
}

/** Each merchant reserves the share of the gas limit that its payments have. */
async function merchantCharges(
  tx: Tx,
  { network, gas, paymentIds, limits }: Parameters<typeof chargeRelay>[1],
): Promise<Charge[]> {
  const maximum = limits.relayGasPerMerchantPerDay ?? null;
  const budgets = await findMerchantBudgets(tx, { network, paymentIds, maximum });
  return [...Map.groupBy(budgets, ({ userId }) => userId)].map(([subject, own]) => ({
    ...{ scope: "MERCHANT" as const, subject, items: own.length, maximum: own[0]?.maximum ?? null },
    amount: ceilDivide(gas * BigInt(own.length), BigInt(paymentIds.length)),
  }));
}

function ceilDivide(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}
