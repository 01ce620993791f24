/** The accounts of every local chain: the published test mnemonic, 10,000 ETH each. Worthless elsewhere. */
import { pbkdf2Sync } from "node:crypto";
import { bytesToHex } from "viem";
import { type HDAccount, HDKey, hdKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";

const MNEMONIC = "test test test test test test test test test test test junk";
const RELAYER_COUNT = 4;
/** BIP-39: a mnemonic's seed. viem derives it in JavaScript, which takes 50 ms of CPU each time. */
const SEED = pbkdf2Sync(MNEMONIC, "mnemonic", 2_048, 64, "sha512");
const ROOT = HDKey.fromMasterSeed(SEED);
const accounts = new Map<number, HDAccount>();

/** Index 0 to 3 relay payments; 5 is the wallet shown on payment pages; 8 may upgrade the token, 9 owns and mints it. */
export function localAccount(index: number): HDAccount {
  const known = accounts.get(index);
  if (known) return known;
  const account = hdKeyToAccount(ROOT, { addressIndex: index });
  accounts.set(index, account);
  return account;
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
