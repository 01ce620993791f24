/**
 * Creates the wallet row of a passkey: the counterfactual address, the event, the e-mail with the wallet file, and the deployment job if
 * deployment is eager.
 */
import { ANY_CHAIN_NONCE_KEY } from "../../core/chain/owner-operation.ts";
import { accountAddress, accountOriginOf } from "../../core/chain/passkey-account.ts";
import { conflict, invalid } from "../../core/domain/errors.ts";
import { hexOf } from "../../core/domain/hex-text.ts";
import { newWalletId } from "../../core/domain/ids.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Passkey, Wallet } from "../../db/schema.ts";
import { hasRemovedOwner } from "../../db/wallet-ops/owner-changes.ts";
import { insertWallet, isAddressTaken, listWallets } from "../../db/wallets/wallets.ts";
import type { ApiDeps } from "../http/deps.ts";
import { copyOwnerChanges } from "./copy-owner-changes.ts";

/**
 * Undefined when the user already has a wallet on this network. The address can receive before it is deployed. Throws CONFLICT when an
 * owner that was removed on another network could still take it over, and VALIDATION_ERROR for the key of another user's wallet.
 */
export async function createWallet(
  tx: Tx,
  { config }: Pick<ApiDeps, "config">,
  { passkey, network, requestId }: { passkey: Passkey; network: NetworkId; requestId: string },
): Promise<Wallet | undefined> {
  const { userId } = passkey;
  const [first] = await listWallets(tx, userId);
  const origin = originOf(passkey, first);
  // an attestation does not necessarily prove possession of the key, and owners are public once an account is deployed on any network
  if (!first && (await isAddressTaken(tx, origin.address)))
    throw invalid("passkeyResponse", "credential_in_use", "This passkey is already registered");
  const wallet = await insertWallet(tx, { id: newWalletId(), userId, network, ...origin });
  if (!wallet) return undefined;
  if (first && (await hasRemovedOwner(tx, first, ANY_CHAIN_NONCE_KEY)))
    throw conflict(
      "An owner that was removed from your wallet would also own it on this network, or could still take it over there",
      { field: "network", issue: "removed_owner" },
    );
  if (first) await copyOwnerChanges(tx, first, wallet);
  const data = { network, address: wallet.address };
  await recordEvents(tx, [{ userId, type: "wallet.created", subjectId: wallet.id, data }]);
  await enqueue(tx, "send_wallet_file", { userId, requestId });
  // where gas costs money a wallet is deployed by its first send: a sign-up must cost nothing
  const isEager = NETWORKS[network].isTestnet && config.walletDeployment !== "lazy";
  if (isEager) await enqueue(tx, "deploy_wallet", { walletId: wallet.id, requestId });
  return wallet;
}

/** The initial owners determine the address on every network, whichever owner sets up another one. */
function originOf(passkey: Passkey, first: Wallet | undefined) {
  if (first) {
    const { address, passkeyId, factory, owners } = first;
    return { address, passkeyId, factory, owners };
  }
  const origin = accountOriginOf({ x: hexOf(passkey.publicKeyX), y: hexOf(passkey.publicKeyY) });
  const { factory, owners } = origin;
  return { address: accountAddress(origin), passkeyId: passkey.id, factory, owners: [...owners] };
}
