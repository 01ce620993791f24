/** Factories of smart wallets that a payer's ERC-6492 signature may deploy from, the same on both networks. */
import { CONTRACTS, type Hex } from "./networks.ts";

/** The default list. Each factory only creates wallets; no other contract named by a signature is ever called. Lower case. */
export const WALLET_FACTORIES: readonly Hex[] = [
  /** Coinbase Smart Wallet 1.1, also used for our merchants' wallets. */
  CONTRACTS.smartWalletFactory,
  /** Coinbase Smart Wallet 1.0. */
  "0x0ba5ed0c6aa8c49038f819e587e2633c4a9f428a",
  /** Safe 1.4.1, SafeProxyFactory. */
  "0x4e1dcf7ad4e460cfd30791ccc4f9c8a4f820ec67",
  /** Kernel 3.0 and 3.1, MetaFactory: its owner decides which factories it calls. */
  "0xd703aae79538628d27099b8c4f621be4ccd142d5",
];
