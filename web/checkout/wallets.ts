/** Wallets in this browser that announce themselves (EIP-6963). */

export type Provider = { request: (call: { method: string; params?: unknown[] }) => Promise<unknown> };
export type Wallet = { id: string; name: string; icon: string | undefined; provider: Provider };
/** `outside`: on another device or site, reached through a library that is loaded on click. */
export type Wallets = { found: readonly Wallet[]; outside: readonly Wallet[]; isSearching: boolean };

/** Wallets announce themselves immediately; after this time without any, an older one in `window.ethereum` is used. */
const SEARCH_MS = 400;

type Announcement = {
  info: { rdns: string; name: string; icon: string };
  provider: Provider;
  isOutside?: boolean;
};

export function watchWallets(onChange: (wallets: Wallets) => void): void {
  const found = new Map<string, Wallet>();
  const outside = new Map<string, Wallet>();
  let isSearching = true;
  const report = () => onChange({ found: [...found.values()], outside: [...outside.values()], isSearching });
  addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider, isOutside } = (event as CustomEvent<Announcement>).detail;
    const list = isOutside ? outside : found;
    if (list.has(info.rdns)) return;
    const icon = info.icon?.startsWith("data:image/") ? info.icon : undefined;
    list.set(info.rdns, { id: info.rdns, name: info.name, icon, provider });
    isSearching &&= list !== found;
    report();
  });
  dispatchEvent(new Event("eip6963:requestProvider"));
  setTimeout(() => {
    const { ethereum } = globalThis as { ethereum?: Provider };
    if (found.size === 0 && ethereum)
      found.set("window", { id: "window", name: "Ethereum", icon: undefined, provider: ethereum });
    isSearching = false;
    report();
  }, SEARCH_MS);
}

/** Apps that open a page in their own browser through a tapped link (a redirect does not open them). */
export function openInLinks(url: string): { name: string; href: string }[] {
  const encoded = encodeURIComponent(url);
  const bare = url.replace(/^https?:\/\//, "");
  return [
    { name: "Base", href: `https://go.cb-w.com/dapp?cb_url=${encoded}` },
    { name: "MetaMask", href: `https://link.metamask.io/dapp/${bare}` },
    { name: "Trust Wallet", href: `https://link.trustwallet.com/open_url?coin_id=60&url=${encoded}` },
    { name: "Phantom", href: `https://phantom.app/ul/browse/${encoded}?ref=${encoded}` },
  ];
}
