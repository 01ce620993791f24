/** The two networks and the contracts this page trusts. Constants of the page, so that a forged wallet file or node cannot replace them. */

export type Hex = `0x${string}`;

export type Network = {
  readonly chainId: number;
  readonly name: string;
  readonly usdc: Hex;
  /** The network's public node, the default. */
  readonly rpcUrl: string;
  /** A transaction hash is appended. */
  readonly explorerUrl: string;
};

export const NETWORKS: readonly Network[] = [
  {
    chainId: 8453,
    name: "Base",
    usdc: "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
    rpcUrl: "https://mainnet.base.org",
    explorerUrl: "https://basescan.org/tx/",
  },
  {
    chainId: 84532,
    name: "Base Sepolia",
    usdc: "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
    rpcUrl: "https://sepolia.base.org",
    explorerUrl: "https://sepolia.basescan.org/tx/",
  },
];

/** The same on both networks. */
export const CONTRACTS = {
  entryPoint: "0x5ff137d4b0fdcd49dca30c7cf57e578a026d2789",
  factory: "0xba5ed110efdba3d005bfc882d75358acbbb85842",
  implementation: "0x00000110dcdedc9581cb5ecb8467282f2926534d",
  multicall3: "0xca11bde05977b3631167028862be2a173976ca11",
} as const satisfies Record<string, Hex>;

export function networkOf(chainId: number): Network | undefined {
  return NETWORKS.find((network) => network.chainId === chainId);
}
