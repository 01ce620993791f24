/**
 * Limits on relaying and its costs, as variables with their defaults. `core/domain/relay-budget.ts` applies them,
 * `api/wallet-ops/send-gas-budget.ts` refuses sends.
 */
import { z } from "zod";
import { wholeNumber } from "./env.ts";

const PRODUCTION_MERCHANT_GAS_PER_DAY = 500_000_000n;
const PRODUCTION_SENDS_GAS_PER_DAY = 500_000_000n;
/** 0.02 ETH. */
const PRODUCTION_DAILY_FEE_MAX_WEI = 20_000_000_000_000_000n;
const UNITS_PER_USDC = 1_000_000n;

/** USDC on the outside, micro-USDC inside. */
export function usdcAmount(fallback: string) {
  return z
    .string()
    .regex(/^\d{1,12}(\.\d{1,6})?$/, "must be USDC with at most 6 decimal places, such as 0.001")
    .default(fallback)
    .transform(toMicroUsdc);
}

export const relayLimitsShape = {
  RELAY_MIN_AMOUNT: usdcAmount("0.001"),
  RELAY_GAS_PER_MERCHANT_PER_DAY: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(),
} as const;

export const sendLimitsShape = {
  SEND_GAS_PER_DAY: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(5_000_000),
  SEND_GAS_TOTAL_PER_DAY: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(),
} as const;

/** Of the process that signs. */
export const workerLimitsShape = {
  RELAY_BATCH_MAX: wholeNumber(1, 100).default(50),
  /** The highest fee a relay offers. */
  RELAY_MAX_FEE_GWEI: wholeNumber(1, 10_000).default(2),
  RELAY_DAILY_FEE_MAX_WEI: z
    .string()
    .regex(/^\d{1,30}$/, "must be whole wei")
    .optional(),
  RELAY_HEAD_MAX_AGE_S: wholeNumber(1, 86_400).optional(),
  RELAY_REVERTED_GAS_PER_DAY: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(10_000_000),
} as const;

/** Maximum gas fees of a network's relayers per UTC day; undefined: no limit. */
export function dailyFeeMaxWei(env: {
  NODE_ENV: string;
  RELAY_DAILY_FEE_MAX_WEI?: string | undefined;
}): bigint | undefined {
  if (env.RELAY_DAILY_FEE_MAX_WEI !== undefined) return BigInt(env.RELAY_DAILY_FEE_MAX_WEI);
  return env.NODE_ENV === "production" ? PRODUCTION_DAILY_FEE_MAX_WEI : undefined;
}

/** Gas that all sends may use per network and UTC day; undefined: no limit. */
export function sendGasTotalPerDay(env: {
  NODE_ENV: string;
  SEND_GAS_TOTAL_PER_DAY?: number | undefined;
}): bigint | undefined {
  if (env.SEND_GAS_TOTAL_PER_DAY !== undefined) return BigInt(env.SEND_GAS_TOTAL_PER_DAY);
  return env.NODE_ENV === "production" ? PRODUCTION_SENDS_GAS_PER_DAY : undefined;
}

/** Gas that relaying for one merchant may use per network and UTC day; undefined: no limit. */
export function merchantGasPerDay(env: {
  NODE_ENV: string;
  RELAY_GAS_PER_MERCHANT_PER_DAY?: number | undefined;
}): bigint | undefined {
  if (env.RELAY_GAS_PER_MERCHANT_PER_DAY !== undefined) return BigInt(env.RELAY_GAS_PER_MERCHANT_PER_DAY);
  return env.NODE_ENV === "production" ? PRODUCTION_MERCHANT_GAS_PER_DAY : undefined;
}

function toMicroUsdc(text: string): bigint {
  const [whole = "0", fraction = ""] = text.split(".");
  return BigInt(whole) * UNITS_PER_USDC + BigInt(fraction.padEnd(6, "0"));
}
