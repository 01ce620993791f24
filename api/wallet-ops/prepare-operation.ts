/**
 * Prepares an operation for its owner to sign: reads the wallet's state from the chain, builds the calls from it, and stores the
 * row, the recipients and the challenge in one transaction. Call data is never accepted from a client.
 */
import {
  type AccountState,
  emptyCall,
  readAccountState,
  taggedTransfers,
} from "../../core/chain/account-state.ts";
import { ANY_CHAIN_NONCE_KEY } from "../../core/chain/owner-operation.ts";
import { toOwner } from "../../core/chain/passkey-account.ts";
import { buildUserOperation, operationGas } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { conflict, invalid, ServiceError } from "../../core/domain/errors.ts";
import { hexOf } from "../../core/domain/hex-text.ts";
import { newChallengeId } from "../../core/domain/ids.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { OPERATION_LIFE_MS } from "../../core/domain/operation-lifetime.ts";
import { additionsInOrder, type OwnerSlots, withAdded } from "../../core/domain/owner.ts";
import {
  DEPLOYMENT_MINIMUM_SENDS,
  type OperationKind,
  type OperationTerms,
  operationTag,
} from "../../core/domain/wallet-operation.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { insertChallenge } from "../../db/auth/challenges.ts";
import { listPasskeys } from "../../db/auth/passkeys.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Passkey, User, Wallet } from "../../db/schema.ts";
import { expireOperations } from "../../db/wallet-ops/expire-operations.ts";
import {
  findByIdempotencyKey,
  findLiveOperation,
  findMissingNonce,
  findOperation,
  insertOperation,
  type NewOperationItem,
  type OperationView,
} from "../../db/wallet-ops/operations.ts";
import { listWaitingAdditions } from "../../db/wallet-ops/owner-changes.ts";
import type { ApiDeps } from "../http/deps.ts";
import { refuseOverGasBudget, refuseOverNetworkBudget } from "./send-gas-budget.ts";
import { warningsOf } from "./warnings.ts";

export type Preparation = {
  id: string;
  kind: OperationKind;
  wallet: Wallet;
  /** Whose passkeys may sign it: the challenge is bound to this person. */
  signer: User;
  items: readonly NewOperationItem[];
  /** What must be equal for two preparations with the same Idempotency-Key. */
  request: unknown;
  idempotencyKey: string | undefined;
  requestId: string;
  /** The refunded link: its tag follows the operation's in the calls, so that after restoring an older backup the refund's link is found. */
  refundedLink?: { tag: Hex };
  /** Prepares an empty operation with this one's nonce instead of transfers. */
  voidOf?: { id: string; accountNonce: bigint };
  /** An unsigned operation with this id is prepared again. */
  renews?: boolean;
  extraWarnings?: (state: AccountState) => OperationTerms["warnings"];
  /** Called in the transaction that stores the operation; throwing prevents storing. */
  reserve?: (tx: Tx) => Promise<void>;
};

export type Prepared = { operation: OperationView; isReplay: boolean };

/** How many of the user's overdue unsigned operations are marked EXPIRED before a new one is inserted, which frees their Idempotency-Keys. */
const EXPIRED_AT_ONCE = 100;

/**
 * Throws CONFLICT while another operation of the wallet is in progress, its balance is too low or no passkey of the signer owns it, FORBIDDEN when the token
 * refuses, RATE_LIMITED beyond a gas budget, INTERNAL_ERROR when no node responds.
 */
export async function prepareOperation(
  deps: ApiDeps,
  chain: Chain,
  preparation: Preparation,
): Promise<Prepared> {
  const { wallet, kind, items } = preparation;
  const replay = await findReplay(deps, preparation);
  if (replay) return { operation: replay, isReplay: true };
  const missing = preparation.voidOf ? undefined : await refuseWhileLive(deps, wallet);
  // an operation that fills a missing nonce unblocks the one behind it, and costs no more than what the reorganisation undid
  if (!missing) await refuseOverGasBudget(deps, wallet.userId);
  const state = await readState(chain, wallet, items);
  // the chain is ahead of the ledger, which considers a nonce missing
  if (missing && missing.nonce !== state.nonce) throw inFlight(missing.liveId);
  refuseByChain(state, items);
  if (!preparation.voidOf) refuseSmallDeployment(deps, wallet, state);
  const passkeys = await listPasskeys(deps.sql, preparation.signer.id, deps.config.passkey.rpId);
  const slots = await readSlots(deps, wallet, state);
  const owners = ownersOf(slots, passkeys);
  // the browser would offer any passkey of the site, none of which can sign
  if (owners.length === 0)
    throw conflict(`None of your passkeys is an owner of the wallet on ${wallet.network}`, {
      issue: "no_owner_passkey",
    });
  const [warnings, { usdc, chainId }] = [
    await warningsOf(deps.sql, { userId: wallet.userId, items, state, slots }),
    chain.network,
  ];
  const tag: Hex = `${operationTag(preparation.id)}${preparation.refundedLink?.tag.slice(2) ?? ""}`;
  const calls = preparation.voidOf
    ? [emptyCall(usdc.address, wallet.address, tag)]
    : taggedTransfers(usdc.address, items, tag);
  const nonce = preparation.voidOf?.accountNonce ?? state.nonce;
  const operation = buildUserOperation({ sender: wallet.address, nonce, calls });
  const gas = operationGas(operation, { deploys: !state.isDeployed });
  await refuseOverNetworkBudget(deps, wallet.network, gas);
  const userOpHash = userOperationHash(operation, chainId);
  const total = totalOf(items);
  const terms: OperationTerms = {
    owners,
    warnings: [...warnings, ...(preparation.extraWarnings?.(state) ?? [])],
    balanceAfter: formatUnits(state.balanceUnits - total),
    deploysWallet: !state.isDeployed,
    headNumber: state.headNumber,
  };
  const stored = await deps.sql.begin(async (tx) => {
    await expireOperations(tx, { userId: wallet.userId, limit: EXPIRED_AT_ONCE });
    const challengeId = newChallengeId();
    const row = await insertOperation(tx, {
      id: preparation.id,
      userId: wallet.userId,
      walletId: wallet.id,
      network: wallet.network,
      kind,
      userOpHash,
      accountNonce: nonce,
      callData: operation.callData,
      terms,
      challengeId,
      items,
      callGas: operation.callGasLimit,
      verificationGas: operation.verificationGasLimit,
      idempotencyKey: preparation.idempotencyKey,
      request: preparation.request,
      voidOf: preparation.voidOf?.id,
      isExtra: missing !== undefined,
      requestId: preparation.requestId,
      lifeMs: OPERATION_LIFE_MS,
      renews: preparation.renews ?? false,
    });
    if (!row) return undefined;
    await preparation.reserve?.(tx);
    await insertChallenge(tx, {
      id: challengeId,
      userId: preparation.signer.id,
      purpose: "send",
      network: wallet.network,
      challenge: Buffer.from(userOpHash.slice(2), "hex"),
      lifeMs: OPERATION_LIFE_MS,
    });
    return findOperation(tx, { id: row.id, userId: wallet.userId, kind });
  });
  if (stored) return { operation: stored, isReplay: false };
  if (preparation.renews)
    throw conflict("This has just been signed or cancelled", { issue: "already_confirmed" });
  // another request with the same key came first
  const faster = await findReplay(deps, preparation);
  if (faster) return { operation: faster, isReplay: true };
  throw conflict("A request with this Idempotency-Key is still running.", {
    field: "Idempotency-Key",
    issue: "in_progress",
  });
}

/** The current state of what this Idempotency-Key prepared earlier. Throws CONFLICT when the key was used with another request. */
export async function findReplay(
  deps: ApiDeps,
  {
    wallet,
    kind,
    idempotencyKey: key,
    request,
  }: Pick<Preparation, "kind" | "idempotencyKey" | "request"> & {
    wallet: Pick<Wallet, "userId">;
  },
): Promise<OperationView | undefined> {
  if (key === undefined) return undefined;
  const known = await findByIdempotencyKey(deps.sql, { userId: wallet.userId, kind, key, request });
  const hasLapsed = known?.operation.state === "AWAITING_SIGNATURE" && known.operation.isOver;
  if (!known || hasLapsed) return undefined;
  if (known.isSameRequest) return known.operation;
  throw conflict("This Idempotency-Key was used with another request.", {
    field: "Idempotency-Key",
    issue: "other_request",
  });
}

/** Throws CONFLICT, unless the pending operation can only be executed after another one has spent the returned nonce. */
async function refuseWhileLive(
  { sql }: ApiDeps,
  wallet: Wallet,
): Promise<{ liveId: string; nonce: bigint } | undefined> {
  const liveId = await findLiveOperation(sql, wallet.id);
  if (liveId === undefined) return undefined;
  const nonce = await findMissingNonce(sql, liveId);
  if (nonce === undefined) throw inFlight(liveId);
  return { liveId, nonce };
}

function inFlight(id: string): ServiceError {
  return conflict("Another operation of this wallet is in progress; wait until it is confirmed", {
    issue: "operation_in_flight",
    id,
  });
}

async function readState(
  chain: Chain,
  wallet: Wallet,
  items: readonly NewOperationItem[],
): Promise<AccountState> {
  try {
    return await readAccountState(chain, wallet.address, items);
  } catch (cause) {
    if (!(cause instanceof RpcTransportError)) throw cause;
    throw new ServiceError("INTERNAL_ERROR", `${wallet.network} cannot be read right now`, {
      details: { issue: "network_unreachable", retryable: true },
      cause,
    });
  }
}

function refuseByChain(state: AccountState, items: readonly NewOperationItem[]): void {
  if (state.balanceUnits < totalOf(items))
    throw conflict(`The wallet holds ${formatUnits(state.balanceUnits)} USDC, less than this needs`, {
      field: "amount",
      issue: "insufficient_funds",
    });
  const position = state.refusals.findIndex((refusal) => refusal !== undefined);
  const refusal = state.refusals[position];
  if (!refusal) return;
  const to = items[position]?.to ?? "";
  throw new ServiceError("FORBIDDEN", `The token refuses this transfer to ${to}: ${refusal.text}`, {
    details: { issue: "payment_not_allowed", position, to },
  });
}

/** A first operation deploys the account; where that costs money, the wallet must hold a minimum. */
function refuseSmallDeployment(
  { config }: Pick<ApiDeps, "config">,
  { network }: Wallet,
  { isDeployed, balanceUnits }: AccountState,
): void {
  const minUnits = DEPLOYMENT_MINIMUM_SENDS * config.sendMinUnits;
  if (isDeployed || NETWORKS[network].isTestnet || balanceUnits >= minUnits) return;
  throw invalid(
    "amount",
    "below_minimum",
    `The first send on ${network} deploys the wallet, which must hold at least ${formatUnits(minUnits)} USDC`,
  );
}

/** The account's owners by index. Before deployment: its initial owners and those whose addition waits for its first operation. */
async function readSlots(
  { sql }: ApiDeps,
  wallet: Wallet,
  { isDeployed, owners }: AccountState,
): Promise<OwnerSlots> {
  if (isDeployed) return owners;
  const waiting = await listWaitingAdditions(sql, [wallet.id]);
  const { inOrder } = additionsInOrder(waiting, ANY_CHAIN_NONCE_KEY << 64n);
  return withAdded(
    wallet.owners,
    inOrder.map(({ owner }) => owner),
  );
}

/** The signer's passkeys that control the account on this network, each with the index it signs under there. */
function ownersOf(slots: OwnerSlots, passkeys: readonly Passkey[]): OperationTerms["owners"] {
  return passkeys.flatMap(({ id, publicKeyX, publicKeyY }) => {
    const index = slots.indexOf(toOwner({ x: hexOf(publicKeyX), y: hexOf(publicKeyY) }));
    return index < 0 ? [] : [{ passkeyId: id, index }];
  });
}

function totalOf(items: readonly { amountUnits: bigint }[]): bigint {
  return items.reduce((sum, { amountUnits }) => sum + amountUnits, 0n);
}
