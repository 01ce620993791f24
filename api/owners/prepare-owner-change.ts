/**
 * Prepares an owner change for an owner to sign: one operation per network. An addition for every network needs one signature; a removal needs
 * the owner's index on its network, and is an ordinary operation there.
 */
import {
  ANY_CHAIN_NONCE_KEY,
  buildAnyChainOperation,
  buildOwnerOperation,
} from "../../core/chain/owner-operation.ts";
import { encodeAddOwner, encodeRemoveOwner, OWNER_INDEX_MAX } from "../../core/chain/passkey-account.ts";
import { anyChainHash, userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { conflict, notFound } from "../../core/domain/errors.ts";
import { newChallengeId, newOwnerChangeIds } from "../../core/domain/ids.ts";
import { canRemoveOwner } from "../../core/domain/last-owner.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { OPERATION_LIFE_MS } from "../../core/domain/operation-lifetime.ts";
import { addressOfOwner, type OwnerAction, ownerIdOf } from "../../core/domain/owner.ts";
import { type OperationTerms, operationTag } from "../../core/domain/wallet-operation.ts";
import { insertChallenge } from "../../db/auth/challenges.ts";
import { listPasskeys, listPasskeysOfAccount, renamePasskey } from "../../db/auth/passkeys.ts";
import type { Passkey, User } from "../../db/schema.ts";
import { expireOperations } from "../../db/wallet-ops/expire-operations.ts";
import { findLiveOperation, insertOperation } from "../../db/wallet-ops/operations.ts";
import { insertOwnerChange } from "../../db/wallet-ops/owner-changes.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { refuseOverGasBudget } from "../wallet-ops/send-gas-budget.ts";
import { type NewOwner, storePasskey } from "./new-owner.ts";
import { type ChangeView, findChangeByKey, getChange } from "./owner-changes.ts";
import { ownerOf, readWalletOwners, type WalletOwners } from "./wallet-owners.ts";

export type ChangePreparation = {
  user: User;
  /** Whose passkeys may sign it: the challenge is bound to this person. */
  signer: User;
  /** Undefined: every enabled network on which the user has a wallet. */
  network: NetworkId | undefined;
  /** The owner to remove, or how to verify the one to add; verified once nothing else can refuse. */
  change:
    | { action: "REMOVE"; ownerId: string }
    | {
        action: "ADD";
        name: string | undefined;
        verify: (wallets: readonly WalletOwners[]) => Promise<NewOwner>;
      };
  idempotencyKey: string | undefined;
  request: unknown;
  trace: Trace;
};

/** How many of the user's overdue unsigned operations are marked EXPIRED first, which frees their Idempotency-Keys. */
const EXPIRED_AT_ONCE = 100;

type Planned = NewOwner & { action: OwnerAction; name: string | undefined };

/**
 * Throws NOT_FOUND without a wallet or owner, CONFLICT for the last owner, an existing owner, or an operation in progress,
 * RATE_LIMITED beyond a gas budget, INTERNAL_ERROR when a node does not respond.
 */
export async function prepareOwnerChange(
  deps: ApiDeps,
  preparation: ChangePreparation,
): Promise<{ change: ChangeView; isReplay: boolean }> {
  const { user, network } = preparation;
  const replay = await findChangeByKey(deps, preparation);
  if (replay) return { change: replay, isReplay: true };
  const wallets = await readWalletOwners(deps, { userId: user.id, network });
  const takesMissingNonce = fillsGap(preparation, wallets);
  if (!takesMissingNonce) await refuseOverGasBudget(deps, user.id);
  const { rpId } = deps.config.passkey;
  const known = await listPasskeysOfAccount(deps.sql, user.id, rpId);
  const planned = await plan(preparation, wallets, known);
  const passkeys = await listPasskeys(deps.sql, preparation.signer.id, rpId);
  const isAnyChain = network === undefined || takesMissingNonce;
  if (!isAnyChain) for (const { wallet } of wallets) await refuseWhileLive(deps, wallet.id);
  const signers = signersOf(wallets, passkeys);
  const built = build(wallets, { planned, isAnyChain });
  const changeId = await store(deps, preparation, { planned, built, signers, isAnyChain });
  return { change: await getChange(deps, { id: changeId, user }), isReplay: false };
}

/**
 * An addition on one network uses the every-network nonce that is missing there: the other networks have spent it, so an addition for all
 * networks cannot use it, and whatever waits behind it would never be executed.
 */
function fillsGap({ change }: ChangePreparation, wallets: readonly WalletOwners[]): boolean {
  return change.action === "ADD" && wallets.some(({ missingNonce }) => missingNonce !== undefined);
}

async function plan(
  { user, change, network }: ChangePreparation,
  wallets: readonly WalletOwners[],
  passkeys: readonly Passkey[],
): Promise<Planned> {
  if (change.action === "REMOVE") {
    const [only] = wallets;
    const owner = only?.coming.find((one) => one !== undefined && ownerIdOf(one) === change.ownerId);
    if (!only || !owner) throw notFound(`An owner of your wallet on ${network} with this id`);
    const own = new Set(passkeys.filter(({ userId }) => userId === user.id).map(ownerOf));
    const members = new Set(passkeys.filter(({ userId }) => userId !== user.id).map(ownerOf));
    // nothing orders a removal behind an addition except an account's deployment, and without its signer the addition is void
    const certain = only.state.isDeployed ? only.current : only.coming;
    if (!canRemoveOwner(certain, { removed: owner, own, members }))
      throw conflict(
        "This is the last owner with which the account itself can use the wallet: add another one first, and wait until it is an owner on the chain",
        {
          field: "remove.ownerId",
          issue: "last_owner",
        },
      );
    return { action: "REMOVE", owner, passkey: undefined, name: undefined };
  }
  const undeployed = wallets.find(({ state }) => network && !state.isDeployed);
  if (undeployed)
    throw conflict(
      "The wallet is not deployed there yet: leave out network, and the first send there adds the owner",
      {
        field: "network",
        issue: "not_deployed",
      },
    );
  const full = wallets.find(({ coming }) => coming.length >= OWNER_INDEX_MAX);
  if (full)
    throw conflict(
      `Your wallet on ${full.wallet.network} has had ${full.coming.length} owners, including removed ones: no more can be added`,
      { field: "add", issue: "too_many_owners" },
    );
  const added = await change.verify(wallets);
  const holders = wallets.filter(({ coming }) => coming.includes(added.owner));
  if (holders.length > 0)
    throw conflict(
      holders.length === wallets.length
        ? "This is already an owner"
        : "This is already an owner on one network: pass the other one as network",
      { field: "add", issue: "already_owner", networks: holders.map(({ wallet }) => wallet.network) },
    );
  return { action: "ADD", ...added, name: change.name };
}

async function refuseWhileLive({ sql }: ApiDeps, walletId: string): Promise<void> {
  const id = await findLiveOperation(sql, walletId);
  if (id === undefined) return;
  throw conflict("Another operation of this wallet is in progress; wait until it is confirmed", {
    issue: "operation_in_flight",
    id,
  });
}

/** For each wallet, the passkeys that may sign: those that own all of the wallets, each with its index there. */
function signersOf(
  wallets: readonly WalletOwners[],
  passkeys: readonly Passkey[],
): ReadonlyMap<string, OperationTerms["owners"]> {
  const common = passkeys.filter((passkey) =>
    wallets.every(({ coming }) => coming.includes(ownerOf(passkey))),
  );
  if (common.length === 0)
    throw conflict("None of your passkeys is an owner on all of these networks: pass one network", {
      field: "network",
      issue: "no_common_owner",
    });
  return new Map(
    wallets.map(({ wallet, coming }) => [
      wallet.id,
      common.map((passkey) => ({ passkeyId: passkey.id, index: coming.indexOf(ownerOf(passkey)) })),
    ]),
  );
}

type Built = WalletOwners & { id: string; operation: ReturnType<typeof buildOwnerOperation> };

function build(
  wallets: readonly WalletOwners[],
  { planned, isAnyChain }: { planned: Planned; isAnyChain: boolean },
): Built[] {
  const ids = newOwnerChangeIds(new Date(), wallets.length);
  const nonce = isAnyChain ? commonNonce(wallets) : undefined;
  return wallets.map((one, index) => {
    const id = ids[index] ?? "";
    const sender = one.wallet.address;
    const given = { sender, call: callOf(planned, one), tag: operationTag(id) };
    const operation =
      nonce === undefined
        ? buildOwnerOperation({ ...given, nonce: one.state.nonce })
        : buildAnyChainOperation({ ...given, nonce });
    return { ...one, id, operation };
  });
}

function callOf({ action, owner }: Planned, { coming }: WalletOwners): Hex {
  if (action === "REMOVE") return encodeRemoveOwner(coming.indexOf(owner), owner);
  const address = addressOfOwner(owner);
  if (address) return encodeAddOwner(address);
  return encodeAddOwner({ x: owner.slice(0, 66) as Hex, y: `0x${owner.slice(66)}` });
}

/** One signature is valid for one nonce, which must be the same on every network, counting waiting operations. */
function commonNonce(wallets: readonly WalletOwners[]): bigint {
  const nonces = wallets.map(({ state, waiting }) =>
    waiting.reduce((next, { nonce }) => (nonce >= next ? nonce + 1n : next), state.anyChainNonce),
  );
  const [first = ANY_CHAIN_NONCE_KEY << 64n] = nonces;
  if (nonces.every((nonce) => nonce === first)) return first;
  throw conflict(
    "The networks have had different owner changes: change one network at a time, using network",
    {
      field: "network",
      issue: "networks_out_of_step",
    },
  );
}

type Storing = {
  planned: Planned;
  built: readonly Built[];
  signers: ReadonlyMap<string, OperationTerms["owners"]>;
  isAnyChain: boolean;
};

async function store(
  deps: ApiDeps,
  { user, signer, idempotencyKey, request, trace }: ChangePreparation,
  { planned, built, signers, isAnyChain }: Storing,
): Promise<string> {
  const { action, owner, passkey, name, memberId } = planned;
  const [{ id: changeId } = { id: "" }] = built;
  const warnings = warningsOf(planned, built);
  await deps.sql.begin(async (tx) => {
    await expireOperations(tx, { userId: user.id, limit: EXPIRED_AT_ONCE });
    if (passkey) await storePasskey(tx, passkey);
    if (passkey && name)
      await renamePasskey(tx, { id: passkey.id, userId: user.id, rpId: passkey.rpId }, name);
    await insertOwnerChange(tx, {
      id: changeId,
      userId: user.id,
      action,
      owner,
      passkeyId: passkey?.id,
      memberId,
      name: passkey ? undefined : name,
    });
    const challengeId = newChallengeId();
    for (const [index, { id, wallet, chain, state, operation }] of built.entries()) {
      const row = await insertOperation(tx, {
        id,
        userId: user.id,
        walletId: wallet.id,
        network: wallet.network,
        kind: "OWNERS",
        items: [],
        userOpHash: userOperationHash(operation, chain.network.chainId),
        accountNonce: operation.nonce,
        callData: operation.callData,
        callGas: operation.callGasLimit,
        verificationGas: operation.verificationGasLimit,
        challengeId,
        ownerChangeId: changeId,
        isAnyChain,
        terms: {
          owners: signers.get(wallet.id) ?? [],
          warnings,
          balanceAfter: "",
          deploysWallet: !state.isDeployed && !isAnyChain,
        },
        // the first one represents the change
        idempotencyKey: index === 0 ? idempotencyKey : undefined,
        request,
        requestId: trace.requestId,
        lifeMs: OPERATION_LIFE_MS,
      });
      if (!row)
        throw conflict("A request with this Idempotency-Key is still running.", {
          field: "Idempotency-Key",
          issue: "in_progress",
        });
    }
    const [first] = built;
    if (!first) throw new Error("an owner change has no operation");
    const hash = isAnyChain
      ? anyChainHash(first.operation)
      : userOperationHash(first.operation, first.chain.network.chainId);
    await insertChallenge(tx, {
      id: challengeId,
      userId: signer.id,
      purpose: "send",
      network: isAnyChain ? null : first.wallet.network,
      challenge: Buffer.from(hash.slice(2), "hex"),
      lifeMs: OPERATION_LIFE_MS,
    });
  });
  return changeId;
}

function warningsOf({ action, owner }: Planned, built: readonly Built[]): OperationTerms["warnings"] {
  const isLeft = built.some(({ coming }) => {
    const after = coming.filter((one) => one !== undefined).length + (action === "ADD" ? 1 : -1);
    return after < 2 && (action === "ADD" || coming.includes(owner));
  });
  if (!isLeft) return [];
  return [
    {
      code: "single_owner",
      message: "Only one owner is left after this: losing that device would mean losing the money",
    },
  ];
}
