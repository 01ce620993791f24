/** Base Account's library behind one function; loaded when a payer chooses it. */
import { createBaseAccountSDK } from "@base-org/account";
import type { Provider } from "../checkout/wallets.ts";

export function openBaseAccount({ name, chainId }: { name: string; chainId: number }): Provider {
  const preference = { telemetry: false };
  return createBaseAccountSDK({ appName: name, appChainIds: [chainId], preference }).getProvider();
}
