/**
 * Confirms an operation with an owner's signature: verified locally against the hash of the row's own fields, then QUEUED with its history
 * rows, events and job in one transaction that also uses up the challenge. Repeating the same assertion returns the same response.
 */
import { createHash } from "node:crypto";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import { newTransactionId } from "../../core/domain/ids.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import type { OperationKind } from "../../core/domain/wallet-operation.ts";
import { currentTraceparent } from "../../core/tracing/spans.ts";
import { findChallenge, takeChallenge } from "../../db/auth/challenges.ts";
import { findPasskey } from "../../db/auth/passkeys.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { findCursor } from "../../db/ledger/cursors.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { Passkey, User } from "../../db/schema.ts";
import { storeTraces } from "../../db/traces/traces.ts";
import {
  findOperation,
  type OpenedHistory,
  type OperationView,
  openHistory,
  queueOperation,
  type Signed,
} from "../../db/wallet-ops/operations.ts";
import { isBehindNonce } from "../../db/wallet-ops/refunds.ts";
import type { Assertion } from "../auth/passkey-wire.ts";
import { notePasskeyUse } from "../auth/sign-in.ts";
import { type Use, verifyAssertion } from "../auth/verify-passkey.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { toUserOperation } from "./to-user-operation.ts";

const LEDGER_WAIT_MS = 5_000;
const LEDGER_POLL_MS = 100;

export type Confirmation = {
  user: User;
  /** Who prepared it and signs: no other person's passkey is accepted. */
  signer: User;
  kind: OperationKind;
  id: string;
  challengeId: string;
  response: Assertion;
  trace: Trace;
  /** Default description of the history rows, next to the items' notes. */
  history: Omit<OpenedHistory, "ids">;
  event: "wallet.send_queued" | "refund.created";
  /**
   * Called in the transaction that queues the operation, when the ledger has read every operation that spent an earlier nonce of the
   * account; throwing prevents queueing.
   */
  recheck?: (tx: Tx) => Promise<void>;
};

/**
 * Throws NOT_FOUND, CONFLICT when it was already confirmed or cancelled or its nonce is spent, VALIDATION_ERROR when verification fails,
 * and what `recheck` throws. With `recheck` also CONFLICT while the ledger is behind.
 */
export async function confirmOperation(deps: ApiDeps, given: Confirmation): Promise<OperationView> {
  const operation = await getOperation(deps, given);
  const assertionHash = hashOfAssertion(given.response);
  const earlier = answerEarlier(operation, assertionHash);
  if (earlier) return earlier;
  if (operation.challengeId !== given.challengeId) throw challengeInvalid();
  const meant = { userId: given.signer.id, purpose: "send" as const };
  const challenge = await findChallenge(deps.sql, given.challengeId, meant);
  if (!challenge) return answerLate(deps, given, assertionHash);
  const { passkey, use, signed } = await verify(deps, given, operation, assertionHash);
  if (given.recheck) await awaitLedger(deps, operation);
  const isQueued = await deps.sql
    .begin(async (tx) => {
      // a concurrent confirmation waits here, and then finds the challenge used
      if (!(await takeChallenge(tx, challenge.id, meant))) return false;
      if (!(await notePasskeyUse(tx, { passkey, use, trace: given.trace }))) throw notVerified();
      if (!(await queueOperation(tx, signed))) throw conflictOf("nonce_taken");
      await given.recheck?.(tx);
      await writeQueued(tx, given, operation);
      return true;
    })
    .catch((error: unknown) => {
      if (isLiveKeyViolation(error)) throw conflictOf("nonce_taken");
      throw error;
    });
  return isQueued ? getOperation(deps, given) : answerLate(deps, given, assertionHash);
}

/**
 * Waits until the ledger has read the block at which the operation's nonce was read, and the events that spent the nonces before it: nonce and
 * block number may come from different nodes, and an operation that had ended may have been executed in between. Throws CONFLICT.
 */
async function awaitLedger({ sql }: ApiDeps, { id, network, terms }: OperationView): Promise<void> {
  const { headNumber = 0 } = terms;
  const deadlineMs = Date.now() + LEDGER_WAIT_MS;
  for (;;) {
    const cursor = await findCursor(sql, network);
    if (cursor && cursor.number >= headNumber && !(await isBehindNonce(sql, id))) return;
    if (Date.now() >= deadlineMs)
      throw conflict(
        "The chain has not yet been read up to the block at which this was prepared; confirm it again in a moment",
        {
          issue: "ledger_behind",
          retryable: true,
        },
      );
    await Bun.sleep(LEDGER_POLL_MS);
  }
}

async function getOperation(deps: ApiDeps, { id, kind, user }: Confirmation): Promise<OperationView> {
  const operation = await findOperation(deps.sql, { id, userId: user.id, kind });
  if (operation) return operation;
  throw notFound(kind === "REFUND" ? "Refund" : "Send");
}

/** The response for an operation that is no longer waiting for its signature; undefined for one that is. */
function answerEarlier(operation: OperationView, assertionHash: Uint8Array): OperationView | undefined {
  if (operation.assertionHash && Buffer.from(operation.assertionHash).equals(assertionHash)) return operation;
  const { state, isOver } = operation;
  if (state === "CANCELLED") throw conflictOf("cancelled");
  if (state === "EXPIRED" || (state === "AWAITING_SIGNATURE" && isOver)) throw challengeInvalid();
  if (state !== "AWAITING_SIGNATURE") throw conflictOf("already_confirmed");
  if (operation.isNonceSpent) throw conflictOf("nonce_taken");
  return undefined;
}

/** The challenge is gone: another request with the same assertion may have just used it. */
async function answerLate(
  deps: ApiDeps,
  given: Confirmation,
  assertionHash: Uint8Array,
): Promise<OperationView> {
  const earlier = answerEarlier(await getOperation(deps, given), assertionHash);
  if (earlier) return earlier;
  throw challengeInvalid();
}

type Verified = { passkey: Passkey; use: Use; signed: Signed };

/** A failed verification uses the challenge up. */
async function verify(
  deps: ApiDeps,
  given: Confirmation,
  operation: OperationView,
  assertionHash: Uint8Array,
): Promise<Verified> {
  const { user, signer, response, trace } = given;
  const verified = await check(deps, given, operation);
  if (verified.ok) {
    const { passkey, use, ownerIndex, signature } = verified;
    const { id, userOpHash } = operation;
    const signed = { id, userId: user.id, userOpHash, passkeyId: passkey.id, ownerIndex, signature };
    return { passkey, use, signed: { ...signed, assertionHash } };
  }
  await takeChallenge(deps.sql, given.challengeId, { userId: signer.id, purpose: "send" });
  deps.log.info(
    { ...trace, userId: user.id, operationId: operation.id, passkey: response.id, reason: verified.reason },
    "operation signature refused",
  );
  throw notVerified();
}

type Checked =
  | { ok: true; passkey: Passkey; use: Use; ownerIndex: number; signature: Hex }
  | { ok: false; reason: string };

async function check(
  deps: ApiDeps,
  { signer, response }: Confirmation,
  operation: OperationView,
): Promise<Checked> {
  const hash = userOperationHash(toUserOperation(operation), NETWORKS[operation.network].chainId);
  if (hash !== operation.userOpHash)
    throw new Error(`operation ${operation.id} does not make its stored hash: ${hash}`);
  const owner = operation.terms.owners.find(({ passkeyId }) => passkeyId === response.id);
  const passkey = owner && (await findPasskey(deps.sql, response.id, signer.id));
  if (!owner || !passkey) return { ok: false, reason: "the passkey does not control the wallet" };
  const challenge = Buffer.from(hash.slice(2), "hex");
  const verified = await verifyAssertion(deps.config, {
    response,
    challenge,
    passkey,
    userVerification: "required",
  });
  if (!verified.ok) return verified;
  try {
    const signature = encodePasskeySignature(response.response, owner.index);
    return { ok: true, passkey, use: verified.use, ownerIndex: owner.index, signature };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { ok: false, reason: error.message };
  }
}

/** History rows, event, job and notification of an operation that has just been queued. */
async function writeQueued(tx: Tx, { user, history, event }: Confirmation, operation: OperationView) {
  const { id, network, items } = operation;
  await openHistory(tx, operation, { ids: items.map(() => newTransactionId()), ...history });
  const payments = items.filter(({ isFee }) => !isFee);
  const total = payments.reduce((sum, { units }) => sum + BigInt(units), 0n);
  const data = { network, amount: formatUnits(total), recipients: payments.length, linkId: history.linkId };
  await recordEvents(tx, [{ userId: user.id, type: event, subjectId: id, data }]);
  await enqueue(tx, "relay_operations", { network });
  const traceparent = currentTraceparent();
  if (traceparent) await storeTraces(tx, [{ subjectId: id, traceparent }]);
  await notify(tx, [id]);
}

/** What stays the same when a browser repeats its response. */
export function hashOfAssertion({ id, response }: Assertion): Uint8Array {
  const { authenticatorData, clientDataJSON, signature } = response;
  return createHash("sha256")
    .update(JSON.stringify([id, authenticatorData, clientDataJSON, signature]))
    .digest();
}

export function isLiveKeyViolation(error: unknown): boolean {
  return (
    error instanceof Error &&
    "constraint_name" in error &&
    (error.constraint_name === "wallet_operations_live_key" ||
      error.constraint_name === "wallet_operations_any_chain_key")
  );
}

const CONFLICTS = {
  already_confirmed: "This was already confirmed with another signature",
  cancelled: "This was cancelled",
  nonce_taken: "Another operation of the wallet came first; prepare again",
} as const;

export function conflictOf(issue: keyof typeof CONFLICTS) {
  return conflict(CONFLICTS[issue], { issue });
}

export function challengeInvalid() {
  return invalid(
    "challengeId",
    "invalid_or_expired",
    "The challenge is unknown, used or expired; prepare again",
  );
}

export function notVerified() {
  return invalid(
    "passkeyResponse",
    "not_verified",
    "The passkey's response could not be verified; prepare again",
  );
}
