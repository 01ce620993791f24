/**
 * Wallets outside the browser (WalletConnect, Base Account) on the payment page: their files, the settings for the page's script, and the
 * origins that its content security policy must allow.
 */
import type { ApiConfig } from "../config.ts";
import type { Assets } from "../http/assets.ts";

export type FurtherWallets = {
  /** Announces the wallets to the page; their libraries are loaded on click. */
  script: string;
  walletConnect?: { projectId: string; script: string };
  baseAccount?: { script: string };
};

export type ForeignOrigins = { connect: readonly string[]; frame: readonly string[] };

const WALLETCONNECT_FILE = "walletconnect.js";
const BASE_ACCOUNT_FILE = "base-account.js";
const WALLETCONNECT = {
  relay: "wss://relay.walletconnect.org",
  /** Loaded in a hidden frame: attests to the wallet which page is asking. */
  verify: "https://verify.walletconnect.org",
};

/** Throws an error naming the command to run when a configured library is not built. */
export function requireWalletFiles(
  assets: Assets,
  { furtherWallets }: Pick<ApiConfig, "furtherWallets">,
): void {
  const { walletConnectProjectId, baseAccount } = furtherWallets;
  const needed = {
    WALLETCONNECT_PROJECT_ID: walletConnectProjectId && WALLETCONNECT_FILE,
    BASE_ACCOUNT: baseAccount && BASE_ACCOUNT_FILE,
  };
  for (const [setting, file] of Object.entries(needed))
    if (file && !assets.has(file))
      throw new Error(
        `${setting} is set, but ${file} is not built: run \`bun run build:web\` with this setting.`,
      );
}

/** Undefined when none is configured. */
export function furtherWalletsOf({
  assets,
  config,
}: {
  assets: Assets;
  config: Pick<ApiConfig, "furtherWallets">;
}): FurtherWallets | undefined {
  const { walletConnectProjectId: projectId, baseAccount } = config.furtherWallets;
  if (projectId === undefined && !baseAccount) return undefined;
  return {
    script: assets.pathOf("further-wallets.js"),
    ...(projectId !== undefined && {
      walletConnect: { projectId, script: assets.pathOf(WALLETCONNECT_FILE) },
    }),
    ...(baseAccount && { baseAccount: { script: assets.pathOf(BASE_ACCOUNT_FILE) } }),
  };
}

/** Base Account's own site opens as a window, which the policy need not allow. `rpcUrl`: where the page reads such a wallet's balance. */
export function originsOf({ walletConnect }: FurtherWallets, rpcUrl: string): ForeignOrigins {
  const node = new URL(rpcUrl).origin;
  return walletConnect
    ? { connect: [node, WALLETCONNECT.relay], frame: [WALLETCONNECT.verify] }
    : { connect: [node], frame: [] };
}
