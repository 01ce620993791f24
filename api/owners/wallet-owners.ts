/** A user's wallets with their current owners on chain, and their owners after all signed additions. */
import { type OwnerState, readOwnerState } from "../../core/chain/owner-state.ts";
import { toOwner } from "../../core/chain/passkey-account.ts";
import { notFound, ServiceError } from "../../core/domain/errors.ts";
import { hexOf } from "../../core/domain/hex-text.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { additionsInOrder, withAdded } from "../../core/domain/owner.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { Passkey, Wallet } from "../../db/schema.ts";
import { listWaitingAdditions, type WaitingAddition } from "../../db/wallet-ops/owner-changes.ts";
import { listWallets } from "../../db/wallets/wallets.ts";
import type { ApiDeps } from "../http/deps.ts";
import { getEnabledChain } from "../wallets/enabled-network.ts";

export type WalletOwners = {
  wallet: Wallet;
  chain: Chain;
  state: OwnerState;
  /** By index, on the chain; before deployment, the owners the account will be deployed with. */
  current: (Hex | undefined)[];
  /** Additions that only wait for their turn. */
  waiting: WaitingAddition[];
  /** The every-network nonce that later additions wait for and that no pending operation spends. */
  missingNonce: bigint | undefined;
  /** `current` plus the waiting additions. */
  coming: (Hex | undefined)[];
};

/** On one network, or on all enabled networks with a wallet. Throws NOT_FOUND, and INTERNAL_ERROR when a node does not respond. */
export async function readWalletOwners(
  deps: ApiDeps,
  { userId, network }: { userId: string; network: NetworkId | undefined },
): Promise<WalletOwners[]> {
  if (network) getEnabledChain(deps, network);
  const wallets = (await listWallets(deps.sql, userId)).filter((wallet) =>
    network ? wallet.network === network : deps.chains.has(wallet.network),
  );
  if (wallets.length === 0) throw notFound(network ? `A wallet of yours on ${network}` : "A wallet of yours");
  const waiting = await listWaitingAdditions(
    deps.sql,
    wallets.map(({ id }) => id),
  );
  return Promise.all(
    wallets.map(async (wallet) => {
      const chain = getEnabledChain(deps, wallet.network);
      const state = await readState(chain, wallet);
      const own = waiting.filter(
        ({ walletId, nonce }) => walletId === wallet.id && nonce >= state.anyChainNonce,
      );
      const { inOrder, missingNonce } = inOrderOf(own, state);
      const current = state.isDeployed ? state.owners : [...wallet.owners];
      const coming = withAdded(
        current,
        inOrder.map(({ owner }) => owner),
      );
      return { wallet, chain, state, current, waiting: inOrder, missingNonce, coming };
    }),
  );
}

/**
 * A reorganisation can permanently remove the operation that spent a nonce: additions behind it do not count as future owners until another
 * addition uses that nonce. While node and ledger disagree about the next nonce, one of them lags and no nonce is considered missing.
 */
function inOrderOf(own: readonly WaitingAddition[], { anyChainNonce }: OwnerState) {
  if (own.every(({ unspentNonce }) => unspentNonce === anyChainNonce))
    return additionsInOrder(own, anyChainNonce);
  return { inOrder: [...own], missingNonce: undefined };
}

async function readState(chain: Chain, wallet: Wallet): Promise<OwnerState> {
  try {
    return await readOwnerState(chain, wallet.address);
  } catch (cause) {
    if (!(cause instanceof RpcTransportError)) throw cause;
    throw new ServiceError("INTERNAL_ERROR", `${wallet.network} cannot be read right now`, {
      details: { issue: "network_unreachable", retryable: true },
      cause,
    });
  }
}

/** A passkey in the account's storage format. */
export function ownerOf({ publicKeyX, publicKeyY }: Pick<Passkey, "publicKeyX" | "publicKeyY">): Hex {
  return toOwner({ x: hexOf(publicKeyX), y: hexOf(publicKeyY) });
}
