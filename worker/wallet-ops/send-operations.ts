/**
 * Drains a network's queued operations: lease, simulate, sign and store, send. Operations that are waiting at the same time share one transaction
 * with a separate `handleOps` for each, so that a bad one does not affect the others.
 */
import { encodeCreateAccount } from "../../core/chain/passkey-account.ts";
import {
  type OperationVerdict,
  type SimulatedOperation,
  simulateOperations,
} from "../../core/chain/simulate-operations.ts";
import {
  type BundleItem,
  buildBundleCall,
  bundleItemGas,
  type UserOperation,
} from "../../core/chain/user-operation.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { RETURN_BLOCKS } from "../../core/domain/reorg-depth.ts";
import type { OperationFailure } from "../../core/domain/wallet-operation.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { findWorkerKeys } from "../../db/health/process-heartbeats.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { BudgetExceededError } from "../../db/relays/budgets.ts";
import {
  failQueuedOperations,
  failUnsentOperations,
  hasUnfinishedOperations,
  type LeasedOperation,
  leaseQueuedOperations,
  markOperationsBroadcast,
  markOperationsSigned,
  requeueUnrunOperations,
  returnOperations,
} from "../../db/wallet-ops/queue.ts";
import { forgetRefusedSignature, noteRefusedSignature } from "../../db/wallet-ops/refused-signature.ts";
import { requeueFromRetiredKeys } from "../../db/wallet-ops/retired-keys.ts";
import type { RelayerKey } from "../relayer-keys-env.ts";
import type { RelayNetwork } from "../sender/relay-network.ts";
import { type SignedRelay, sendAttempt, storeRelay } from "../sender/send-relay.ts";
import { signAndCommit } from "../sender/sign-and-commit.ts";
import { traceRelay } from "../sender/trace-relay.ts";
import { operationCharges } from "./send-budgets.ts";

const LEASE_MS = 10_000;
const ROUNDS_MAX = 50;
const OPERATIONS_A_BUNDLE = 40;
/** Below the transaction gas limit of EIP-7825. */
const BUNDLE_GAS_MAX = 16_000_000n;
/** Sends stop while a key, or the daily fee budget, still has this much reserved for payments. */
const RESERVED_FOR_PAYMENTS_GAS = 5_000_000n;
const BUSY_RETRY_MS = 100;
const RETRY_MS = 500;
/** A transaction of a key that no worker has is given this long; most are mined within seconds. */
const RETIRED_AFTER_S = 120;
/** A possibly transient refusal is final after this many simulations. */
const REFUSALS_MAX = 3;

type Ready = { leased: LeasedOperation; bundleItem: BundleItem };

/** Runs until nothing is due, or no key has room. */
export async function sendOperations(network: RelayNetwork): Promise<void> {
  if (!(await hasUnfinishedOperations(network.deps.sql, network.chain.network.id))) return;
  await settleRelayed(network);
  const sending: Promise<void>[] = [];
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const due = await leaseQueuedOperations(network.deps.sql, network.chain.network.id, {
      limit: OPERATIONS_A_BUNDLE,
      leaseMs: LEASE_MS,
    });
    if (due.length === 0) break;
    const leased = due.map(withAdditionsThatFit);
    try {
      const ready = await simulateLeasedOperations(network, leased);
      for (const bundle of toBundles(ready)) await sendBundle(network, bundle, sending);
    } catch (error) {
      await returnOperations(network.deps.sql, idsOf(leased), { delayMs: RETRY_MS });
      if (!(error instanceof RpcTransportError)) throw error;
      network.deps.log.warn(
        { network: network.chain.network.id, err: error },
        "operations can't be sent now",
      );
      break;
    }
  }
  await Promise.all(sending);
}

/** Handles the outcomes of relays that carried operations, and operations that waited too long. */
async function settleRelayed({ deps, chain, lanes, confirmations }: RelayNetwork): Promise<void> {
  const id = chain.network.id;
  await deps.sql.begin(async (tx) => {
    const unsent = await failUnsentOperations(tx, id);
    const { requeued, failed } = await requeueUnrunOperations(tx, id, confirmations);
    await notify(tx, [...unsent, ...requeued, ...failed]);
    if (unsent.length > 0)
      deps.log.warn({ network: id, operationIds: unsent }, "operations not sent in time");
    if (requeued.length + failed.length > 0)
      deps.log.warn({ network: id, requeued, failed }, "relays did not run their operations");
  });
  // in a transaction of its own: each statement locks its operations in the order of their ids
  const stranded = await deps.sql.begin(async (tx) => {
    const ids = await requeueStranded(tx, { chain, lanes });
    await notify(tx, ids);
    return ids;
  });
  if (stranded.length > 0)
    deps.log.warn(
      { network: id, operationIds: stranded },
      "no worker has the relayer key of these operations' transaction: another one carries them",
    );
}

/** This worker's own keys are not reported yet when it has just started. */
async function requeueStranded(
  tx: Tx,
  { chain, lanes }: Pick<RelayNetwork, "chain" | "lanes">,
): Promise<string[]> {
  const reported = await findWorkerKeys(tx);
  if (!reported) return [];
  const network = chain.network.id;
  const others = reported.flatMap((key) => {
    const [of, address] = key.split(" ");
    return of === network ? [address as Hex] : [];
  });
  const relayers = [...lanes.keys.map(({ address }) => address), ...others];
  return requeueFromRetiredKeys(tx, network, { relayers, afterS: RETIRED_AFTER_S });
}

/** Records refusals and returns the operations that pass. */
async function simulateLeasedOperations(
  network: RelayNetwork,
  leased: readonly LeasedOperation[],
): Promise<Ready[]> {
  const [key] = network.lanes.keys;
  if (!key) return [];
  const verdicts = await simulateOperations(network.chain, key.address, leased.map(toSimulated));
  const ready: Ready[] = [];
  for (const [index, one] of leased.entries()) {
    const verdict = verdicts[index];
    const isUnsigned = verdict?.ok === false && verdict.action === "unsigned";
    if (one.signatureRefusedBlock !== null && !isUnsigned)
      await forgetRefusedSignature(network.deps.sql, one.id);
    if (verdict?.ok) ready.push({ leased: one, bundleItem: verdict.bundleItem });
    else if (verdict) await handleRefusal(network, one, verdict);
  }
  return ready;
}

async function handleRefusal(
  { deps, chain, confirmations }: RelayNetwork,
  { id, refusals, requestId }: LeasedOperation,
  verdict: Extract<OperationVerdict, { ok: false }>,
): Promise<void> {
  const { action, text } = verdict;
  const label = { network: chain.network.id, operationId: id, requestId, text };
  if (action === "wait" || (action === "retry" && refusals + 1 < REFUSALS_MAX)) {
    deps.log.info(label, "operation refused by simulation; retrying");
    return returnOperations(deps.sql, [id], { delayMs: RETRY_MS, areRefused: action === "retry" });
  }
  const reason: OperationFailure = verdict.reason;
  if (action === "unsigned") {
    const blocks = Math.max(RETURN_BLOCKS, confirmations);
    if (!(await noteRefusedSignature(deps.sql, id, blocks)))
      return deps.log.info(label, "signature refused by simulation; retrying");
  }
  const failed = await deps.sql.begin(async (tx) => {
    const ids = await failQueuedOperations(tx, [{ id, reason }]);
    await notify(tx, ids);
    return ids;
  });
  // one that did not is tried again when its lease ends
  if (failed.length === 0)
    return deps.log.warn(
      { ...label, reason },
      "operation refused by simulation; it may still be executed by the transaction of a removed relayer key (docs/KEYS.md)",
    );
  deps.log.info({ ...label, reason }, "operation failed");
}

/**
 * Any number of additions may be waiting for the account. Those that do not fit into its first transaction are executed after deployment, like
 * all others.
 */
function withAdditionsThatFit(leased: LeasedOperation): LeasedOperation {
  const simulated = toSimulated(leased);
  let before = simulated.before;
  while (before.length > 0 && bundleItemGas({ ...simulated, before }) > BUNDLE_GAS_MAX)
    before = before.slice(0, -1);
  return { ...leased, before: leased.before.slice(0, before.length) };
}

/** In order, cut by gas and by count. */
function toBundles(ready: readonly Ready[]): Ready[][] {
  const bundles: Ready[][] = [];
  let gas = 0n;
  for (const one of ready) {
    const own = bundleItemGas(one.bundleItem);
    const bundle = bundles.at(-1);
    if (bundle && gas + own <= BUNDLE_GAS_MAX && bundle.length < OPERATIONS_A_BUNDLE) {
      bundle.push(one);
      gas += own;
    } else {
      bundles.push([one]);
      gas = own;
    }
  }
  return bundles;
}

/** Halves a bundle that no key can pay for: a nearly empty key still pays for a few. */
async function sendBundle(
  network: RelayNetwork,
  bundle: readonly Ready[],
  sending: Promise<void>[],
): Promise<void> {
  const { deps, lanes, chain } = network;
  const gas = bundle.reduce((sum, { bundleItem }) => sum + bundleItemGas(bundleItem), 0n);
  const key = await lanes.choose(gas + RESERVED_FOR_PAYMENTS_GAS);
  if (typeof key !== "string") return signAndSend(network, key, bundle, sending);
  if (key !== "lanes_full" && bundle.length > 1) return sendHalves(network, bundle, sending);
  const operationIds = bundle.map(({ leased }) => leased.id);
  deps.log.warn(
    { network: chain.network.id, why: key, operationIds },
    "no relayer key can send operations now",
  );
  await returnOperations(deps.sql, operationIds, {
    delayMs: key === "lanes_full" ? BUSY_RETRY_MS : RETRY_MS,
  });
}

async function sendHalves(
  network: RelayNetwork,
  bundle: readonly Ready[],
  sending: Promise<void>[],
): Promise<void> {
  const middle = bundle.length >> 1;
  await sendBundle(network, bundle.slice(0, middle), sending);
  return sendBundle(network, bundle.slice(middle), sending);
}

async function signAndSend(
  network: RelayNetwork,
  key: RelayerKey,
  bundle: readonly Ready[],
  sending: Promise<void>[],
): Promise<void> {
  const { deps, chain } = network;
  const operationIds = bundle.map(({ leased }) => leased.id);
  const startMs = Date.now();
  const relay = await sign(network, key, bundle);
  if (relay === "no_budget" && bundle.length > 1) return sendHalves(network, bundle, sending);
  if (typeof relay === "string") return returnOperations(deps.sql, operationIds, { delayMs: RETRY_MS });
  deps.log.info(
    { network: chain.network.id, txHash: relay.txHash, relayer: key.address, operationIds },
    "sending operations",
  );
  const sent = sendAttempt(deps, chain, relay).then(() => noteBroadcast(network, relay.relayId));
  const subjects = operationIds.map((id) => ({ id }));
  sending.push(traceRelay(network, relay, { subjects, startMs, sent }));
}

async function noteBroadcast({ deps }: RelayNetwork, relayId: bigint): Promise<void> {
  try {
    await deps.sql.begin(async (tx) => notify(tx, await markOperationsBroadcast(tx, relayId)));
  } catch (error) {
    // SIGNED and BROADCAST operations are treated alike: their bytes may be out
    deps.log.warn({ relayId: relayId.toString(), err: error }, "operations could not be marked as broadcast");
  }
}

/** Thrown to roll back, so that no nonce is wasted. */
class TakenError extends Error {}

/** Commits nonce, signed bytes and the operations' state in one transaction; or returns why nothing was stored. */
async function sign(
  network: RelayNetwork,
  key: RelayerKey,
  bundle: readonly Ready[],
): Promise<SignedRelay | "taken" | "no_budget"> {
  const { deps, chain, lanes } = network;
  const { fees } = await lanes.readMarket();
  const call = buildBundleCall(
    bundle.map(({ bundleItem }) => bundleItem),
    key.address,
  );
  const ids = bundle.flatMap(({ leased }) => [...leased.before.map(({ id }) => id), leased.id]);
  try {
    return await signAndCommit(network, key, async (tx, signing) => {
      const relay = await storeRelay(tx, chain, signing, {
        kind: "OPERATIONS",
        call,
        fees,
        dailyFeeMaxWei: deps.config.relayDailyFeeMaxWei,
        async bind(tx, relayId) {
          const marked = await markOperationsSigned(tx, relayId, ids);
          if (marked.length < ids.length)
            throw new TakenError("another worker has taken some of the operations");
          return operationCharges(
            chain.network.id,
            bundle.map(({ leased, bundleItem }) => ({ userId: leased.userId, bundleItem })),
            deps.config,
          );
        },
      });
      await notify(tx, ids);
      return relay;
    });
  } catch (error) {
    if (!(error instanceof TakenError || error instanceof BudgetExceededError)) throw error;
    deps.log.warn({ network: chain.network.id, operationIds: ids, err: error }, "operations were not signed");
    return error instanceof TakenError ? "taken" : "no_budget";
  }
}

function toSimulated(leased: LeasedOperation): SimulatedOperation {
  const free: Omit<
    UserOperation,
    "nonce" | "callData" | "callGasLimit" | "verificationGasLimit" | "signature"
  > = {
    sender: leased.address,
    preVerificationGas: 0n,
    maxFeePerGas: 0n,
    maxPriorityFeePerGas: 0n,
    initCode: "0x",
    paymasterAndData: "0x",
  };
  return {
    operation: {
      ...{ ...free, nonce: leased.accountNonce, callData: leased.callData, signature: leased.signature },
      callGasLimit: leased.callGas,
      verificationGasLimit: leased.verificationGas,
    },
    before: leased.before.map(({ nonce, callData, callGas, verificationGas, signature }) => ({
      ...{ ...free, nonce: BigInt(nonce), callData, signature },
      callGasLimit: BigInt(callGas),
      verificationGasLimit: BigInt(verificationGas),
    })),
    deployment: { to: leased.factory, data: encodeCreateAccount(leased.owners, leased.saltNonce) },
    items: leased.items.map(({ to, units }) => ({ to, amountUnits: BigInt(units) })),
  };
}

function idsOf(leased: readonly LeasedOperation[]): string[] {
  return leased.map(({ id }) => id);
}
