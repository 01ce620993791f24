/** Money and test money, which no sum mixes. Pure. */
import { NETWORK_IDS, NETWORKS, type NetworkId } from "./networks.ts";

export const TEST_NETWORKS: readonly NetworkId[] = NETWORK_IDS.filter((id) => NETWORKS[id].isTestnet);

/**
 * The networks whose movements go into books: those `chosen`, else the ones with real money that the merchant has a wallet on. Empty, for
 * all networks, when there are none: who only tests sees what files look like.
 */
export function bookedNetworks(
  chosen: readonly NetworkId[],
  wallets: readonly { network: NetworkId }[],
): NetworkId[] {
  if (chosen.length > 0) return [...chosen];
  return wallets.map(({ network }) => network).filter((network) => !NETWORKS[network].isTestnet);
}
