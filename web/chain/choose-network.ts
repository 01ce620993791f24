/** Switches a browser wallet to a network (EIP-3326), which is added where the wallet does not know it (EIP-3085). */
import type { Provider } from "../checkout/wallets.ts";
import type { Network } from "./networks.ts";

const UNKNOWN_CHAIN = 4902;

/** True: the wallet is on the network. Errors are the wallet's own (EIP-1193). `rpcUrl`: the node of a network that is added. */
export async function chooseNetwork(
  provider: Provider,
  network: Network,
  rpcUrl: string = network.rpcUrl,
): Promise<boolean> {
  const isThere = async () => Number(await provider.request({ method: "eth_chainId" })) === network.chainId;
  if (await isThere()) return true;
  const chainId = `0x${network.chainId.toString(16)}`;
  try {
    await provider.request({ method: "wallet_switchEthereumChain", params: [{ chainId }] });
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code !== UNKNOWN_CHAIN) throw error;
    const added = {
      chainId,
      chainName: network.name,
      rpcUrls: [rpcUrl],
      nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
      blockExplorerUrls: [new URL(network.explorerUrl).origin],
    };
    await provider.request({ method: "wallet_addEthereumChain", params: [added] });
  }
  return isThere();
}
