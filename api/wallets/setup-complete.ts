/** Second step of a wallet setup: the verified passkey becomes the wallet's owner, the user ACTIVE and signed in, in one transaction. */
import { conflict, invalid } from "../../core/domain/errors.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { lockUser } from "../../db/accounts/users.ts";
import { takeChallenge } from "../../db/auth/challenges.ts";
import { findPasskey, insertPasskey } from "../../db/auth/passkeys.ts";
import { findSignInPasskey } from "../../db/auth/sign-in-passkeys.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Challenge, Passkey, Session, User, Wallet } from "../../db/schema.ts";
import { moveToActive } from "../accounts/activate-user.ts";
import { createWallet } from "../accounts/create-wallet.ts";
import type { Assertion, Attestation } from "../auth/passkey-wire.ts";
import { notePasskeyUse } from "../auth/sign-in.ts";
import { type NewCredential, type Use, verifyAssertion, verifyNewPasskey } from "../auth/verify-passkey.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type Browser, startSession } from "../sessions/start-session.ts";
import { getEnabledChain } from "./enabled-network.ts";
import { refuseUnverified } from "./setup-start.ts";

export type SetupRequest = {
  user: User;
  challengeId: string;
  network: NetworkId | undefined;
  response: Attestation | Assertion;
  browser: Browser;
  trace: Trace;
};

type Proof = { kind: "new"; credential: NewCredential } | { kind: "known"; passkey: Passkey; use: Use };
export type SetupDone = { user: User; wallet: Wallet; session: Session };

/** Throws FORBIDDEN before the address is verified, VALIDATION_ERROR for an invalid challenge or response, CONFLICT when the wallet exists. */
export async function completeSetup(deps: ApiDeps, request: SetupRequest): Promise<SetupDone> {
  const { user } = request;
  refuseUnverified(user);
  const challenge = await takeChallenge(deps.sql, request.challengeId, {
    userId: user.id,
    purpose: "register",
  });
  if (!challenge)
    throw invalid(
      "challengeId",
      "invalid_or_expired",
      "The challenge is unknown, used or expired; start again",
    );
  const network = readNetwork(request, challenge);
  getEnabledChain(deps, network);
  const proof = await prove(deps, request, challenge);
  if (!proof.ok) {
    deps.log.info({ ...request.trace, userId: user.id, reason: proof.reason }, "passkey refused");
    await recordSecurityEvent(deps.sql, { userId: user.id, type: "passkey_refused", ...request.trace });
    throw invalid(
      "passkeyResponse",
      "not_verified",
      "The passkey's response could not be verified; start again",
    );
  }
  return deps.sql.begin(async (tx) => {
    const locked = await lockUser(tx, user.id);
    if (!locked) throw invalid("challengeId", "invalid_or_expired");
    const passkey = await settlePasskey(tx, locked, proof.proof, request.trace);
    const wallet = await createWallet(tx, deps, { passkey, network, requestId: request.trace.requestId });
    if (!wallet)
      throw conflict(`You already have a wallet on ${network}`, { field: "network", issue: "wallet_exists" });
    const active = await moveToActive(tx, locked);
    const session = await startSession(tx, {
      ...request,
      user: active,
      method: "wallet_setup",
      passkeyId: passkey.id,
    });
    return { user: active, wallet, session };
  });
}

function readNetwork(request: SetupRequest, challenge: Challenge): NetworkId {
  const { network } = challenge;
  if (!network) throw new Error(`challenge ${challenge.id} has no network`);
  if (request.network && request.network !== network)
    throw invalid("network", "not_the_one_started", `network: setup was started for ${network}`);
  return network;
}

async function prove(
  deps: ApiDeps,
  { user, response }: SetupRequest,
  { challenge }: Challenge,
): Promise<{ ok: true; proof: Proof } | { ok: false; reason: string }> {
  if (isAttestation(response)) {
    const verified = await verifyNewPasskey(deps.config, { response, challenge });
    return verified.ok ? { ok: true, proof: { kind: "new", credential: verified.credential } } : verified;
  }
  const passkey = await findSignInPasskey(deps.sql, response.id, user.id);
  if (!passkey) return { ok: false, reason: "the passkey is not this user's" };
  const verified = await verifyAssertion(deps.config, {
    response,
    challenge,
    passkey,
    userVerification: "required",
  });
  return verified.ok ? { ok: true, proof: { kind: "known", passkey, use: verified.use } } : verified;
}

function isAttestation(response: Attestation | Assertion): response is Attestation {
  return "attestationObject" in response.response;
}

/**
 * The passkey's row. A registration does not necessarily prove possession of the key, and a passkey's id and public key are not secret,
 * so an ACTIVE user must respond with an assertion. Otherwise whoever has stolen the session could add their own wallet and sign-in, or make
 * the session count as having used the passkey.
 */
async function settlePasskey(tx: Tx, user: User, proof: Proof, trace: Trace): Promise<Passkey> {
  if (proof.kind === "known") {
    if (await notePasskeyUse(tx, { ...proof, trace })) return proof.passkey;
    throw invalid(
      "passkeyResponse",
      "not_verified",
      "The passkey's response could not be verified; start again",
    );
  }
  const { credential } = proof;
  if (user.status === "ACTIVE")
    throw conflict("Use your existing passkey to answer passkeyRequest", {
      field: "passkeyResponse",
      issue: "existing_passkey_required",
    });
  const own = await findPasskey(tx, credential.id, user.id);
  if (own && Buffer.from(own.coseKey).equals(credential.coseKey)) return own;
  const passkey = own ? undefined : await insertPasskey(tx, { ...credential, userId: user.id });
  if (!passkey) throw invalid("passkeyResponse", "credential_in_use", "This passkey is already registered");
  await recordSecurityEvent(tx, { userId: user.id, type: "passkey_added", ...trace });
  return passkey;
}
