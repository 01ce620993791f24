/** A wallet on another device or in another app through WalletConnect's relay, paired with a code that the payer scans. */
import { page } from "../checkout/page-data.ts";
import type { Provider } from "../checkout/wallets.ts";
import type { openWalletConnect, WalletConnect } from "../wallets/walletconnect.ts";
import { openDialog } from "./dialog.ts";
import { type Call, declined, load, readChain } from "./load.ts";

type Library = { openWalletConnect: typeof openWalletConnect };

export function walletConnect({ projectId, script }: { projectId: string; script: string }): Provider {
  let opened: Promise<WalletConnect> | undefined;

  async function open(): Promise<WalletConnect> {
    const library = await load<Library>(script);
    return library.openWalletConnect({
      projectId,
      chainId: page.link.chainId,
      rpcUrl: page.network.rpcUrl,
      name: page.link.merchantName,
      url: location.origin,
    });
  }

  async function pair(): Promise<WalletConnect> {
    const cancelled = new AbortController();
    const dialog = openDialog("WalletConnect", () => cancelled.abort());
    try {
      opened ??= open();
      const wallet = await opened.catch((error) => {
        // loaded again by the next click
        opened = undefined;
        throw error;
      });
      if (cancelled.signal.aborted) throw declined();
      await wallet.pair(dialog.showCode, cancelled.signal);
      return wallet;
    } finally {
      dialog.close();
    }
  }

  return {
    request: async (call: Call) => {
      if (call.method === "eth_call") return readChain(call);
      const isPairing = call.method === "eth_requestAccounts" || !opened;
      const wallet = await (isPairing ? pair() : opened);
      return wallet?.request(call);
    },
  };
}
