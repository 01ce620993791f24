/** The data that the server embeds in the page. */
export type NetworkId = "base" | "base-sepolia";

export type PageNetwork = {
  readonly id: NetworkId;
  readonly name: string;
  readonly chainId: number;
  /** A transaction hash is appended. */
  readonly explorerUrl: string;
  readonly isTestnet: boolean;
  readonly confirmations: number;
};

type PageData = {
  readonly language: string;
  /** Translations by their English text. */
  readonly messages: Readonly<Record<string, string>>;
  readonly networks: readonly PageNetwork[];
  readonly serviceName: string;
  readonly hasGoogle: boolean;
  /** Whether the local mailbox can be read: only in test mode. */
  readonly hasMailbox: boolean;
  readonly hasTestWallet: boolean;
  /** The URL matches no screen. */
  readonly isUnknown: boolean;
};

export const page: PageData = JSON.parse(document.getElementById("page")?.textContent ?? "{}");

export function networkOf(id: string): PageNetwork | undefined {
  return page.networks.find((network) => network.id === id);
}

/** None of the money is real. A service with both kinds of networks names the network of each wallet. */
export const isTestOnly = page.networks.every(({ isTestnet }) => isTestnet);

export const nameOfNetwork = (id: string) => networkOf(id)?.name ?? id;
