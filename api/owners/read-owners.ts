/** Reads the owners of a wallet from the chain, with our names for them and warnings. */
import type { z } from "zod";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { OperationTerms } from "../../core/domain/wallet-operation.ts";
import { listPasskeysOfAccount } from "../../db/auth/passkeys.ts";
import type { User } from "../../db/schema.ts";
import { listAddedOwners } from "../../db/wallet-ops/owner-changes.ts";
import { listWallets } from "../../db/wallets/wallets.ts";
import type { ApiDeps } from "../http/deps.ts";
import { ownerOf, readWalletOwners, type WalletOwners } from "./wallet-owners.ts";
import { type OwnerNames, type ownersSchema, presentOwner } from "./wire.ts";

/** Throws NOT_FOUND without a wallet there, INTERNAL_ERROR when its node does not respond. */
export async function readOwners(
  deps: ApiDeps,
  { user, network }: { user: User; network: NetworkId },
): Promise<z.infer<typeof ownersSchema>> {
  const [own] = await readWalletOwners(deps, { userId: user.id, network });
  if (!own) throw new Error(`no wallet was read on ${network}`);
  const { wallet, state, current, coming } = own;
  const [names, added, others] = await Promise.all([
    readNames(deps, user),
    listAddedOwners(deps.sql, wallet.id),
    readOthers(deps, user, network),
  ]);
  const addedAt = new Map(added.map(({ owner, confirmedAt }) => [owner, confirmedAt]));
  const first = new Set<Hex | undefined>(wallet.owners);
  return {
    network,
    wallet: wallet.address,
    deployed: state.isDeployed,
    owners: current.flatMap((owner, index) => {
      if (owner === undefined) return [];
      const since = addedAt.get(owner) ?? (first.has(owner) ? wallet.createdAt : undefined);
      return [{ ...presentOwner(owner, names), index, addedAt: since?.toISOString() ?? null }];
    }),
    waiting: coming.flatMap((owner) =>
      owner === undefined || current.includes(owner) ? [] : [presentOwner(owner, names)],
    ),
    warnings: warningsOf(own, others),
  };
}

export async function readNames({ sql, config }: ApiDeps, user: User): Promise<OwnerNames> {
  const [passkeys, wallets] = await Promise.all([
    listPasskeysOfAccount(sql, user.id, config.passkey.rpId),
    listWallets(sql, user.id),
  ]);
  const added = await Promise.all(wallets.map(({ id }) => listAddedOwners(sql, id)));
  return {
    passkeys: new Map(passkeys.map((passkey) => [ownerOf(passkey), passkey])),
    addresses: new Map(added.flat().flatMap(({ owner, name }) => (name ? [[owner, name]] : []))),
  };
}

/** The user's wallets on other networks; unreachable networks are skipped. */
async function readOthers(deps: ApiDeps, user: User, network: NetworkId): Promise<WalletOwners[]> {
  const wallets = await listWallets(deps.sql, user.id);
  const others = wallets.filter((wallet) => wallet.network !== network && deps.chains.has(wallet.network));
  const read = await Promise.allSettled(
    others.map((wallet) => readWalletOwners(deps, { userId: user.id, network: wallet.network })),
  );
  return read.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
}

function warningsOf(own: WalletOwners, others: readonly WalletOwners[]): OperationTerms["warnings"] {
  const owners = own.coming.filter((owner) => owner !== undefined);
  const single: OperationTerms["warnings"] =
    owners.length > 1
      ? []
      : [
          {
            code: "single_owner",
            message:
              "This wallet has only one owner: add another passkey or an address, because losing that device would mean losing the money",
          },
        ];
  const elsewhere = others
    .filter(({ coming }) => coming.some((owner) => owner !== undefined && !owners.includes(owner)))
    .map(({ wallet }) => ({
      code: "owner_on_other_network" as const,
      message: `On ${wallet.network} the wallet has an owner that it does not have here: remove it there too if it is lost`,
    }));
  return [...single, ...elsewhere];
}
