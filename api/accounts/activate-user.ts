/** WALLET_SETUP_PENDING -> ACTIVE: the passkey is verified and the wallet exists. */
import { DEFAULT_NETWORK } from "../../core/domain/networks.ts";
import { markActive } from "../../db/accounts/users.ts";
import { recordEvents } from "../../db/events/events.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Passkey, User } from "../../db/schema.ts";
import { deleteSessionsOf } from "../../db/sessions/sessions.ts";
import { listWallets } from "../../db/wallets/wallets.ts";
import type { ApiDeps } from "../http/deps.ts";
import { createWallet } from "./create-wallet.ts";

/** Finishes an interrupted setup of a user with a stored passkey; creates a wallet on the default network if there is none. */
export async function activate(
  tx: Tx,
  deps: ApiDeps,
  { user, passkey, requestId }: { user: User; passkey: Passkey; requestId: string },
): Promise<User> {
  const wallets = await listWallets(tx, user.id);
  const [first] = deps.chains.keys();
  const network = deps.chains.has(DEFAULT_NETWORK) ? DEFAULT_NETWORK : first;
  if (wallets.length === 0 && network) await createWallet(tx, deps, { passkey, network, requestId });
  return moveToActive(tx, user);
}

/**
 * Returns the updated user; unchanged when a concurrent request came first. Ends sessions that were started with only an e-mail code: from now on a
 * passkey is needed to sign in.
 */
export async function moveToActive(tx: Tx, user: User): Promise<User> {
  const active = await markActive(tx, user.id);
  if (!active) return user;
  await deleteSessionsOf(tx, user.id, "otp");
  await recordEvents(tx, [{ userId: user.id, type: "user.activated", subjectId: user.id }]);
  return active;
}
