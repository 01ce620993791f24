/** Offers WalletConnect and Base Account on the payment page. Their libraries are loaded when a payer chooses one. */
import { page } from "../checkout/page-data.ts";
import type { Provider } from "../checkout/wallets.ts";
import { baseAccount } from "./base-account-provider.ts";
import { walletConnect } from "./walletconnect-provider.ts";

const { walletConnect: connectSettings, baseAccount: baseSettings } = page.furtherWallets ?? {};

function announce(): void {
  if (connectSettings) offer("WalletConnect", connectProvider);
  if (baseSettings) offer("Base Account", baseProvider);
}

const connectProvider = connectSettings && walletConnect(connectSettings);
const baseProvider = baseSettings && baseAccount(baseSettings);

function offer(name: string, provider: Provider | undefined): void {
  const info = { rdns: name, name, icon: "" };
  dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: { info, provider, isOutside: true } }));
}

addEventListener("eip6963:requestProvider", announce);
announce();
