/** The accounts of every local chain: the published test mnemonic, 10,000 ETH each. Worthless elsewhere. */
import { bytesToHex } from "viem";
import { mnemonicToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";

const MNEMONIC = "test test test test test test test test test test test junk";
const RELAYER_COUNT = 4;

/** Index 0 to 3 relay payments; 5 is the wallet shown on payment pages; 8 may upgrade the token, 9 owns and mints it. */
export function localAccount(index: number) {
  return mnemonicToAccount(MNEMONIC, { addressIndex: index });
}

/** Private keys of the local relayers; relayer 0 also holds the USDC for distribution. */
export function localRelayerKeys(): Hex[] {
  return Array.from({ length: RELAYER_COUNT }, (_, index) => {
    const key = localAccount(index).getHdKey().privateKey;
    if (!key) throw new Error(`local account ${index} has no private key`);
    return bytesToHex(key);
  });
}

/** The account behind the wallet that payment pages show on the local chain. */
export function testWalletAddress(): Hex {
  return localAccount(5).address.toLowerCase() as Hex;
}
