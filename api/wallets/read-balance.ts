/** A wallet's USDC balance, read from the chain now. An unavailable node is an error, never a zero. */
import { readBalance } from "../../core/chain/usdc.ts";
import { notFound, ServiceError } from "../../core/domain/errors.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Wallet } from "../../db/schema.ts";
import { findWallet } from "../../db/wallets/wallets.ts";
import type { ApiDeps } from "../http/deps.ts";
import { getEnabledChain } from "./enabled-network.ts";

export async function readWalletBalance(
  deps: ApiDeps,
  { userId, network }: { userId: string; network: NetworkId },
): Promise<{ wallet: Wallet; units: bigint }> {
  const chain = getEnabledChain(deps, network);
  const wallet = await findWallet(deps.sql, userId, network);
  if (!wallet) throw notFound(`Wallet on ${network}`);
  try {
    return { wallet, units: await readBalance(chain, wallet.address) };
  } catch (cause) {
    throw new ServiceError("INTERNAL_ERROR", `${network} cannot be read at the moment; retry`, {
      details: { issue: "network_unreachable", retryable: true },
      cause,
    });
  }
}
