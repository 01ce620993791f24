/** Base Account: a window of keys.coinbase.com signs with the payer's passkey. */
import { page } from "../checkout/page-data.ts";
import type { Provider } from "../checkout/wallets.ts";
import type { openBaseAccount } from "../wallets/base-account.ts";
import { askToContinue } from "./dialog.ts";
import { type Call, load, readChain } from "./load.ts";

type Library = { openBaseAccount: typeof openBaseAccount };

const OPENS_WINDOW = new Set(["eth_requestAccounts", "eth_signTypedData_v4", "eth_sendTransaction"]);

export function baseAccount({ script }: { script: string }): Provider {
  let opened: Promise<Provider> | undefined;

  async function open(): Promise<Provider> {
    const library = await load<Library>(script);
    return library.openBaseAccount({ name: page.link.merchantName, chainId: page.link.chainId });
  }

  return {
    request: async (call: Call) => {
      if (call.method === "eth_call") return readChain(call);
      opened ??= open();
      const provider = await opened.catch((error) => {
        opened = undefined;
        throw error;
      });
      // a browser allows opening a window only shortly after a click, and loading or signing takes longer
      if (OPENS_WINDOW.has(call.method) && !navigator.userActivation?.isActive)
        await askToContinue("Base Account");
      return provider.request(call);
    },
  };
}
