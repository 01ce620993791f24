/** The built scripts and styles that pages refer to. */
import type { ApiDeps } from "../http/deps.ts";
import { furtherWalletsOf } from "./further-wallets.ts";
import type { PageFiles } from "./html-document.ts";

export function filesOf({ assets, config }: Pick<ApiDeps, "assets" | "config">): PageFiles {
  return {
    style: assets.pathOf("checkout.css"),
    script: assets.pathOf("checkout.js"),
    icon: assets.pathOf("favicon.svg"),
    preview: config.baseUrl + assets.pathOf("preview.png"),
    furtherWallets: furtherWalletsOf({ assets, config }),
    testWallet: config.testWallet && assets.pathOf("test-wallet.js"),
  };
}
