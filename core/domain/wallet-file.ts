/**
 * The wallet file: everything needed to move a wallet's money without this service, except the passkey itself. It holds no secret.
 * An authenticator never returns a passkey's public key again, so without this file or our database the account's address cannot be
 * computed from the passkey.
 */
import { hexOf } from "./hex-text.ts";
import { CONTRACTS, type Hex, NETWORKS, type NetworkId } from "./networks.ts";

export const WALLET_FILE_VERSION = 1;

export type WalletFile = {
  readonly version: typeof WALLET_FILE_VERSION;
  /** Browsers allow the passkeys to sign only on this domain, its subdomains, or origins listed in its /.well-known/webauthn. */
  readonly rpId: string;
  readonly credentials: readonly {
    /** base64url. */
    readonly id: string;
    readonly x: Hex;
    readonly y: Hex;
    readonly transports: readonly string[];
  }[];
  readonly factory: Hex;
  readonly implementation: Hex;
  /** The initial owners, which determine the address. The current owners are read from the chain. */
  readonly owners: readonly Hex[];
  /** Decimal. */
  readonly saltNonce: string;
  readonly address: Hex;
  readonly networks: readonly {
    readonly network: NetworkId;
    readonly chainId: number;
    readonly entryPoint: Hex;
    readonly usdc: Hex;
    /** The network's public node, never one of the operator's. */
    readonly rpcUrl: string;
  }[];
};

/** Rows as the database has them. */
export type WalletOfFile = {
  readonly network: NetworkId;
  readonly address: Hex;
  readonly factory: Hex;
  readonly owners: readonly Hex[];
  readonly saltNonce: bigint;
  readonly rpId: string;
};
export type PasskeyOfFile = {
  readonly id: string;
  readonly publicKeyX: Uint8Array;
  readonly publicKeyY: Uint8Array;
  readonly transports: readonly string[];
  readonly rpId: string;
};

/** One file per address, in the order of the wallets: usually just one, since an account has the same address on every network. */
export function buildWalletFiles(
  wallets: readonly WalletOfFile[],
  passkeys: readonly PasskeyOfFile[],
): WalletFile[] {
  const byAddress = Map.groupBy(wallets, ({ address }) => address);
  return [...byAddress.values()].map((group) => toFile(group, passkeys));
}

function toFile(wallets: readonly WalletOfFile[], passkeys: readonly PasskeyOfFile[]): WalletFile {
  const [first] = wallets;
  if (!first) throw new RangeError("a wallet file needs a wallet");
  const { address, rpId, factory, owners, saltNonce } = first;
  return {
    version: WALLET_FILE_VERSION,
    rpId,
    credentials: passkeys
      .filter((passkey) => passkey.rpId === rpId)
      .map(({ id, publicKeyX, publicKeyY, transports }) => ({
        id,
        x: hexOf(publicKeyX),
        y: hexOf(publicKeyY),
        transports: [...transports],
      })),
    factory,
    implementation: CONTRACTS.smartWalletImplementation,
    owners: [...owners],
    saltNonce: saltNonce.toString(),
    address,
    networks: wallets.map(({ network }) => ({
      network,
      chainId: NETWORKS[network].chainId,
      entryPoint: CONTRACTS.entryPointV06,
      usdc: NETWORKS[network].usdc.address,
      rpcUrl: NETWORKS[network].publicRpcUrl,
    })),
  };
}

/** The name it is saved under. */
export function walletFileName({ address }: Pick<WalletFile, "address">): string {
  return `wallet-${address}.json`;
}

export function formatWalletFile(file: WalletFile): string {
  return `${JSON.stringify(file, null, 2)}\n`;
}
