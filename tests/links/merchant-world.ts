/** A world as merchants' tests want it: test routes on, limits off. */
import { startWorld, type World, type WorldOptions } from "../support/world.ts";

export type MerchantWorld = World;

/** Limits are off unless `env` says RATE_LIMITS=1. */
export function startMerchantWorld(options: WorldOptions = {}): Promise<MerchantWorld> {
  return startWorld({ ...options, env: { NODE_ENV: "test", RATE_LIMITS: "0", ...options.env } });
}
