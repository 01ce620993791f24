/** The two supported networks with every chain-specific constant (EIP-155 id, EIP-712 token domain, public addresses). */

export const NETWORK_IDS = ["base", "base-sepolia"] as const;
export type NetworkId = (typeof NETWORK_IDS)[number];

export type Hex = `0x${string}`;

export type Network = {
  readonly id: NetworkId;
  readonly chainId: number;
  /** CAIP-2 name, as x402 version 2 writes networks. */
  readonly caip2: string;
  readonly displayName: string;
  readonly color: string;
  readonly icon: string;
  /** Explorer URL prefix; a transaction hash is appended. */
  readonly explorerUrl: string;
  /** The network's own public node, for wallets and third-party pages. */
  readonly publicRpcUrl: string;
  readonly description: string;
  readonly isTestnet: boolean;
  /** USDC and the EIP-712 domain its `DOMAIN_SEPARATOR` is built from. Addresses are lower case. */
  readonly usdc: { readonly address: Hex; readonly name: string; readonly version: string };
};

export const NETWORKS: Readonly<Record<NetworkId, Network>> = {
  base: {
    id: "base",
    chainId: 8453,
    caip2: "eip155:8453",
    displayName: "Base",
    color: "#0052FF",
    icon: "base",
    explorerUrl: "https://basescan.org/tx/",
    publicRpcUrl: "https://mainnet.base.org",
    description: "Base mainnet",
    isTestnet: false,
    usdc: { address: "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", name: "USD Coin", version: "2" },
  },
  "base-sepolia": {
    id: "base-sepolia",
    chainId: 84532,
    caip2: "eip155:84532",
    displayName: "Base Sepolia",
    color: "#5B8DEF",
    icon: "base-sepolia",
    explorerUrl: "https://sepolia.basescan.org/tx/",
    publicRpcUrl: "https://sepolia.base.org",
    description: "Base Sepolia test network",
    isTestnet: true,
    usdc: { address: "0x036cbd53842c5426634e7929541ec2318f3dcf7e", name: "USDC", version: "2" },
  },
};

/** Contracts at the same address on both networks. Lower case. */
export const CONTRACTS = {
  multicall3: "0xca11bde05977b3631167028862be2a173976ca11",
  entryPointV06: "0x5ff137d4b0fdcd49dca30c7cf57e578a026d2789",
  smartWalletFactory: "0xba5ed110efdba3d005bfc882d75358acbbb85842",
  smartWalletImplementation: "0x00000110dcdedc9581cb5ecb8467282f2926534d",
} as const satisfies Record<string, Hex>;

export const DEFAULT_NETWORK: NetworkId = "base-sepolia";

export function isNetworkId(text: string): text is NetworkId {
  return (NETWORK_IDS as readonly string[]).includes(text);
}

/** Reads a network as clients write it: our id or its CAIP-2 name. */
export function parseNetwork(text: string): NetworkId | undefined {
  return NETWORK_IDS.find((id) => id === text || NETWORKS[id].caip2 === text);
}
