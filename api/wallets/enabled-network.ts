/** The chain of a network named by a client, if this deployment serves it. */

import { invalid } from "../../core/domain/errors.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { ApiDeps } from "../http/deps.ts";

/** Throws VALIDATION_ERROR when it is not enabled. */
export function getEnabledChain({ chains }: Pick<ApiDeps, "chains">, network: NetworkId): Chain {
  const chain = chains.get(network);
  if (chain) return chain;
  const enabled = [...chains.keys()].join(", ");
  throw invalid("network", "not_enabled", `network: ${network} is not enabled here, only ${enabled}`);
}
