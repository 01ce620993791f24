/** Confirms an owner change with an owner's signature: one assertion queues the operations on all networks, in one transaction. */
import { anyChainHash } from "../../core/chain/owner-operation.ts";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { conflict } from "../../core/domain/errors.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { ownerIdOf } from "../../core/domain/owner.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { findChallenge, takeChallenge } from "../../db/auth/challenges.ts";
import { findPasskey } from "../../db/auth/passkeys.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { lockMember } from "../../db/members/members.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { Passkey, User } from "../../db/schema.ts";
import { type OperationView, queueOperation, type Signed } from "../../db/wallet-ops/operations.ts";
import type { Assertion } from "../auth/passkey-wire.ts";
import { notePasskeyUse } from "../auth/sign-in.ts";
import { type Use, verifyAssertion } from "../auth/verify-passkey.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import {
  challengeInvalid,
  conflictOf,
  hashOfAssertion,
  isLiveKeyViolation,
  notVerified,
} from "../wallet-ops/confirm-operation.ts";
import { toUserOperation } from "../wallet-ops/to-user-operation.ts";
import { type ChangeView, getChange, signedHashOf, statusOfChange } from "./owner-changes.ts";

export type ChangeConfirmation = {
  user: User;
  /** Who prepared it and signs. */
  signer: User;
  id: string;
  challengeId: string;
  response: Assertion;
  trace: Trace;
};

/** Throws NOT_FOUND, CONFLICT when it was already confirmed or cancelled or a nonce is spent, VALIDATION_ERROR when verification fails. */
export async function confirmOwnerChange(deps: ApiDeps, given: ChangeConfirmation): Promise<ChangeView> {
  const change = await getChange(deps, given);
  const assertionHash = hashOfAssertion(given.response);
  const earlier = answerEarlier(change, assertionHash);
  if (earlier) return earlier;
  if (change.first.challengeId !== given.challengeId) throw challengeInvalid();
  const meant = { userId: given.signer.id, purpose: "send" as const };
  if (!(await findChallenge(deps.sql, given.challengeId, meant)))
    return answerLate(deps, given, assertionHash);
  const { passkey, use, signed } = await verify(deps, given, change, assertionHash);
  const isQueued = await deps.sql
    .begin(async (tx) => {
      // a concurrent confirmation waits here, and then finds the challenge used
      if (!(await takeChallenge(tx, given.challengeId, meant))) return false;
      if (!(await notePasskeyUse(tx, { passkey, use, trace: given.trace }))) throw notVerified();
      await refuseFormerMember(tx, change);
      for (const one of signed) if (!(await queueOperation(tx, one))) throw conflictOf("nonce_taken");
      await writeQueued(tx, given, change);
      return true;
    })
    .catch((error: unknown) => {
      if (isLiveKeyViolation(error)) throw conflictOf("nonce_taken");
      throw error;
    });
  return isQueued ? getChange(deps, given) : answerLate(deps, given, assertionHash);
}

/** The response for a change that is no longer waiting for its signature; undefined for one that is. */
function answerEarlier(change: ChangeView, assertionHash: Uint8Array): ChangeView | undefined {
  const { first, operations } = change;
  if (first.assertionHash && Buffer.from(first.assertionHash).equals(assertionHash)) return change;
  const status = statusOfChange(change);
  if (status === "CANCELLED") throw conflictOf("cancelled");
  if (status === "EXPIRED") throw challengeInvalid();
  if (first.state !== "AWAITING_SIGNATURE") throw conflictOf("already_confirmed");
  if (operations.some(({ isNonceSpent }) => isNonceSpent)) throw conflictOf("nonce_taken");
  return undefined;
}

/** The challenge is gone: another request with the same assertion may have just used it. */
async function answerLate(
  deps: ApiDeps,
  given: ChangeConfirmation,
  assertionHash: Uint8Array,
): Promise<ChangeView> {
  const earlier = answerEarlier(await getChange(deps, given), assertionHash);
  if (earlier) return earlier;
  throw challengeInvalid();
}

type Verified = { passkey: Passkey; use: Use; signed: Signed[] };

/** A failed verification uses the challenge up. */
async function verify(
  deps: ApiDeps,
  given: ChangeConfirmation,
  change: ChangeView,
  assertionHash: Uint8Array,
): Promise<Verified> {
  const { user, signer, response, trace } = given;
  const checked = await check(deps, given, change);
  if (checked.ok) {
    const { passkey, use, signatures } = checked;
    const common = { userId: user.id, passkeyId: passkey.id, assertionHash };
    return { passkey, use, signed: signatures.map((one) => ({ ...common, ...one })) };
  }
  await takeChallenge(deps.sql, given.challengeId, { userId: signer.id, purpose: "send" });
  deps.log.info(
    { ...trace, userId: user.id, ownerChangeId: change.id, passkey: response.id, reason: checked.reason },
    "owner change signature refused",
  );
  throw notVerified();
}

type Checked =
  | {
      ok: true;
      passkey: Passkey;
      use: Use;
      signatures: Pick<Signed, "id" | "userOpHash" | "ownerIndex" | "signature">[];
    }
  | { ok: false; reason: string };

async function check(
  deps: ApiDeps,
  { signer, response }: ChangeConfirmation,
  change: ChangeView,
): Promise<Checked> {
  const signedHash = signedHashOf(change);
  for (const operation of change.operations) assertHashes(operation, signedHash);
  const indexes = change.operations.map(
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
    const signatures = change.operations.map(({ id, userOpHash }, place) => {
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

/** The stored fields must produce both the hash that the chain will report and the hash that is signed. */
function assertHashes(stored: OperationView, signedHash: Hex): void {
  const operation = toUserOperation(stored);
  const hash = userOperationHash(operation, NETWORKS[stored.network].chainId);
  const signed = stored.isAnyChain ? anyChainHash(operation) : hash;
  if (hash !== stored.userOpHash || signed !== signedHash)
    throw new Error(`operation ${stored.id} does not make its stored hash: ${hash}`);
}

/** A concurrent removal of the member waits for this transaction, and then finds the addition queued. */
async function refuseFormerMember(tx: Tx, { action, userId, memberId }: ChangeView): Promise<void> {
  if (action !== "ADD" || memberId === null) return;
  const member = await lockMember(tx, { merchantId: userId, userId: memberId });
  if (member?.role === "owner") return;
  throw conflict("This person is no longer a member with the role owner", { issue: "member_removed" });
}

async function writeQueued(
  tx: Tx,
  { user, trace }: ChangeConfirmation,
  { id, action, owner, operations }: ChangeView,
): Promise<void> {
  const ownerId = ownerIdOf(owner);
  const networks = operations.map(({ network }) => network).join(",");
  const data = { action, ownerId, networks };
  await recordEvents(tx, [{ userId: user.id, type: "wallet.owner_change_queued", subjectId: id, data }]);
  const details = { ...data, ownerChangeId: id };
  await recordSecurityEvent(tx, { userId: user.id, type: "owner_change_signed", ...trace, details });
  for (const { network } of operations) await enqueue(tx, "relay_operations", { network });
  await notify(tx, [id, ...operations.map((operation) => operation.id)]);
}
