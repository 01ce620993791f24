/**
 * Confirms what one passkey assertion signs: verified locally against the hash of the rows' own fields, then QUEUED with its events and jobs
 * in one transaction that also uses up the challenge. Repeating the same assertion returns the same response.
 */
import { createHash } from "node:crypto";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { conflict, invalid } from "../../core/domain/errors.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { OperationState } from "../../core/domain/wallet-operation.ts";
import { findChallenge, takeChallenge } from "../../db/auth/challenges.ts";
import { findPasskey } from "../../db/auth/passkeys.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { Passkey, User } from "../../db/schema.ts";
import { expireUnsignable } from "../../db/wallet-ops/expire-operations.ts";
import { type OperationView, queueOperation, type Signed } from "../../db/wallet-ops/operations.ts";
import type { Assertion } from "../auth/passkey-wire.ts";
import { notePasskeyUse } from "../auth/sign-in.ts";
import { type Use, verifyAssertion } from "../auth/verify-passkey.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";

export type Confirmation = {
  user: User;
  /** Who prepared it and signs: no other person's passkey is accepted. */
  signer: User;
  id: string;
  challengeId: string;
  response: Assertion;
  trace: Trace;
};

/** At least one operation; all of them have the same challenge. */
export type Signable = { first: OperationView; operations: readonly OperationView[] };

type Signing<T extends Signable> = {
  read: () => Promise<T>;
  statusOf: (found: T) => OperationState;
  /** Throws when the rows' own fields do not produce their stored hashes. */
  signedHashOf: (found: T) => Hex;
  /** Throwing in this or the two below prevents queueing. */
  beforeTransaction?: (found: T) => Promise<void>;
  beforeQueueing?: (tx: Tx, found: T) => Promise<void>;
  afterQueueing: (tx: Tx, found: T) => Promise<void>;
  /** For the log of a refused signature. */
  name: "operation" | "owner change";
};

/**
 * Throws CONFLICT when it was already confirmed or cancelled or a nonce is spent, VALIDATION_ERROR when verification fails, and what the
 * functions of `signing` throw.
 */
export async function confirmSigned<T extends Signable>(
  deps: ApiDeps,
  given: Confirmation,
  signing: Signing<T>,
): Promise<T> {
  const found = await signing.read();
  const assertionHash = hashOfAssertion(given.response);
  const earlier = answerEarlier(found, signing, assertionHash);
  if (earlier) return earlier;
  if (found.first.challengeId !== given.challengeId) throw challengeInvalid();
  const meant = { userId: given.signer.id, purpose: "send" as const };
  if (!(await findChallenge(deps.sql, given.challengeId, meant))) return answerLate(signing, assertionHash);
  const { passkey, use, signatures } = await verify(deps, given, found, signing);
  await signing.beforeTransaction?.(found);
  const common = { userId: given.user.id, passkeyId: passkey.id, assertionHash };
  const isQueued = await deps.sql
    .begin(async (tx) => {
      // a concurrent confirmation waits here, and then finds the challenge used
      if (!(await takeChallenge(tx, given.challengeId, meant))) return false;
      if (!(await notePasskeyUse(tx, { passkey, use, trace: given.trace }))) throw notVerified();
      await signing.beforeQueueing?.(tx, found);
      for (const one of signatures)
        if (!(await queueOperation(tx, { ...common, ...one }))) throw conflictOf("nonce_taken");
      await signing.afterQueueing(tx, found);
      return true;
    })
    .catch((error: unknown) => {
      if (isLiveKeyViolation(error)) throw conflictOf("nonce_taken");
      throw error;
    });
  return isQueued ? signing.read() : answerLate(signing, assertionHash);
}

/** The response for what is no longer waiting for its signature; undefined while it is. */
function answerEarlier<T extends Signable>(
  found: T,
  { statusOf }: Signing<T>,
  assertionHash: Uint8Array,
): T | undefined {
  const { first, operations } = found;
  if (first.assertionHash && Buffer.from(first.assertionHash).equals(assertionHash)) return found;
  const status = statusOf(found);
  if (status === "CANCELLED") throw conflictOf("cancelled");
  if (status === "EXPIRED") throw challengeInvalid();
  if (first.state !== "AWAITING_SIGNATURE") throw conflictOf("already_confirmed");
  if (operations.some(({ isNonceSpent }) => isNonceSpent)) throw conflictOf("nonce_taken");
  return undefined;
}

/** The challenge is gone: another request with the same assertion may have just used it. */
async function answerLate<T extends Signable>(signing: Signing<T>, assertionHash: Uint8Array): Promise<T> {
  const earlier = answerEarlier(await signing.read(), signing, assertionHash);
  if (earlier) return earlier;
  throw challengeInvalid();
}

type Verified = {
  passkey: Passkey;
  use: Use;
  signatures: Pick<Signed, "id" | "userOpHash" | "ownerIndex" | "signature">[];
};

/**
 * A failed verification uses the challenge up, so what was prepared has expired: it holds neither its Idempotency-Key nor a refund's part of the
 * link's money, and is not offered for a signature again.
 */
async function verify<T extends Signable>(
  deps: ApiDeps,
  given: Confirmation,
  found: T,
  { signedHashOf, name }: Signing<T>,
): Promise<Verified> {
  const { user, response, trace } = given;
  const checked = await check(deps, given, found, signedHashOf(found));
  if (checked.ok) return checked;
  await endUnsigned(deps, given, found);
  const named = name === "operation" ? { operationId: given.id } : { ownerChangeId: given.id };
  deps.log.info(
    { ...trace, userId: user.id, ...named, passkey: response.id, reason: checked.reason },
    `${name} signature refused`,
  );
  throw notVerified();
}

async function endUnsigned(
  { sql }: Pick<ApiDeps, "sql">,
  { signer, challengeId, id }: Confirmation,
  { operations }: Signable,
): Promise<void> {
  const ids = operations.map((operation) => operation.id);
  await sql.begin(async (tx) => {
    if (!(await takeChallenge(tx, challengeId, { userId: signer.id, purpose: "send" }))) return;
    await expireUnsignable(tx, { ids, challengeId });
    await notify(tx, [...new Set([id, ...ids])]);
  });
}

type Checked = ({ ok: true } & Verified) | { ok: false; reason: string };

async function check(
  deps: ApiDeps,
  { signer, response }: Confirmation,
  { operations }: Signable,
  signedHash: Hex,
): Promise<Checked> {
  const indexes = operations.map(
    ({ terms }) => terms.owners.find(({ passkeyId }) => passkeyId === response.id)?.index,
  );
  const passkey = await findPasskey(deps.sql, response.id, signer.id);
  if (!passkey || indexes.includes(undefined))
    return { ok: false, reason: "the passkey does not control the wallet" };
  const challenge = Buffer.from(signedHash.slice(2), "hex");
  const verified = await verifyAssertion(deps.config, {
    response,
    challenge,
    passkey,
    userVerification: "required",
  });
  if (!verified.ok) return verified;
  try {
    const signatures = operations.map(({ id, userOpHash }, place) => {
      const ownerIndex = indexes[place] ?? 0;
      const signature = encodePasskeySignature(response.response, ownerIndex);
      return { id, userOpHash, ownerIndex, signature };
    });
    return { ok: true, passkey, use: verified.use, signatures };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { ok: false, reason: error.message };
  }
}

/** The same when a browser repeats its response. */
function hashOfAssertion({ id, response }: Assertion): Uint8Array {
  const { authenticatorData, clientDataJSON, signature } = response;
  return createHash("sha256")
    .update(JSON.stringify([id, authenticatorData, clientDataJSON, signature]))
    .digest();
}

function isLiveKeyViolation(error: unknown): boolean {
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

function conflictOf(issue: keyof typeof CONFLICTS) {
  return conflict(CONFLICTS[issue], { issue });
}

function challengeInvalid() {
  return invalid(
    "challengeId",
    "invalid_or_expired",
    "The challenge is unknown, used or expired; prepare again",
  );
}

function notVerified() {
  return invalid(
    "passkeyResponse",
    "not_verified",
    "The passkey's response could not be verified; prepare again",
  );
}
