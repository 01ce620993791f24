/** Proves a new owner before it is added: a new passkey by a registration, an address by a signature. Each answers one challenge, once. */
import { hashTypedData } from "viem";
import { isSignedByAddress } from "../../core/chain/address-signature.ts";
import { toAddressOwner } from "../../core/chain/passkey-account.ts";
import { OWNER_PROOF_LIFE_MS } from "../../core/domain/challenge-lifetime.ts";
import { invalid, notFound, ServiceError } from "../../core/domain/errors.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { ownerProofTypedData } from "../../core/domain/owner-proof.ts";
import { parseRecipient } from "../../core/domain/recipient.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { takeChallenge } from "../../db/auth/challenges.ts";
import { findPasskey, insertPasskey, type NewPasskey } from "../../db/auth/passkeys.ts";
import { listSignInPasskeys } from "../../db/auth/sign-in-passkeys.ts";
import { findMembership } from "../../db/members/members.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Challenge, Passkey, User, Wallet } from "../../db/schema.ts";
import { listOwnerPasskeys } from "../../db/wallet-ops/owner-passkeys.ts";
import { newChallenge } from "../auth/challenge.ts";
import { presentCreationOptions } from "../auth/creation-options.ts";
import type { Attestation } from "../auth/passkey-wire.ts";
import { verifyNewPasskey } from "../auth/verify-passkey.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { ownerOf } from "./wallet-owners.ts";

export type NewOwner = {
  owner: Hex;
  /** To be stored: a new one. */
  passkey: NewPasskey | undefined;
  /** The user who already has this passkey. */
  memberId?: string;
};

/**
 * Creation options for a passkey on any device: this one, another by QR code, a security key. A device whose passkey owns nothing, because
 * its addition was not signed or it was removed, may replace it: were it excluded, the device could never be an owner.
 */
export async function startPasskey(deps: ApiDeps, user: User) {
  const passkeys = await listOwnerPasskeys(deps.sql, user.id, deps.config.passkey.rpId);
  const asked = await newChallenge(deps.sql, { userId: user.id, purpose: "owner", network: null });
  const passkeyChallenge = presentCreationOptions(deps.config, user, {
    ...asked,
    passkeys,
    attachment: "any",
  });
  return { challengeId: asked.challengeId, passkeyChallenge };
}

/** What the address has to sign. */
export async function startAddress(
  deps: ApiDeps,
  { user, address: text, wallet }: { user: User; address: string; wallet: Wallet },
) {
  const address = readAddress(text, wallet);
  const { challengeId } = await newChallenge(deps.sql, {
    userId: user.id,
    purpose: "owner",
    network: null,
    lifeMs: OWNER_PROOF_LIFE_MS,
  });
  const terms = { wallet: wallet.address, owner: address, challengeId, host: hostOf(deps) };
  return { challengeId, typedData: ownerProofTypedData(terms), timeout: OWNER_PROOF_LIFE_MS };
}

export type PasskeyAnswer = { challengeId: string; response: Attestation };

/** Throws VALIDATION_ERROR when verification fails; the challenge is used up either way. */
export async function verifyPasskeyOwner(
  deps: ApiDeps,
  { user, trace }: { user: User; trace: Trace },
  { challengeId, response }: PasskeyAnswer,
): Promise<NewOwner> {
  const { challenge } = await consume(deps, user, challengeId);
  const verified = await verifyNewPasskey(deps.config, { response, challenge });
  if (!verified.ok) {
    deps.log.info({ ...trace, userId: user.id, reason: verified.reason }, "passkey refused as an owner");
    throw invalid(
      "add.passkeyResponse",
      "not_verified",
      "The passkey's response could not be verified; start again",
    );
  }
  return { owner: ownerOf(verified.credential), passkey: { ...verified.credential, userId: user.id } };
}

export type AddressAnswer = { challengeId: string; address: string; proof: Hex };

/** `chains`: where it is to become an owner. Throws VALIDATION_ERROR for a proof not signed by this address. */
export async function verifyAddressOwner(
  deps: ApiDeps,
  { user, wallet, chains }: { user: User; wallet: Wallet; chains: readonly Chain[] },
  { challengeId, address: text, proof }: AddressAnswer,
): Promise<NewOwner> {
  const address = readAddress(text, wallet);
  await consume(deps, user, challengeId);
  const terms = { wallet: wallet.address, owner: address, challengeId, host: hostOf(deps) };
  const digest = hashTypedData(ownerProofTypedData(terms));
  const isProven = await isSignedByAddress(chains, { address, digest, signature: proof }).catch(
    (cause: unknown) => {
      if (!(cause instanceof RpcTransportError)) throw cause;
      throw new ServiceError("INTERNAL_ERROR", "The proof could not be checked; start again", {
        details: { field: "add.proof", retryable: true, issue: "network_unreachable" },
        cause,
      });
    },
  );
  if (isProven) return { owner: toAddressOwner(address), passkey: undefined };
  throw invalid("add.proof", "not_verified", "The proof is not a signature of this address; start again");
}

/**
 * The passkey with which the member last signed in or signed: an older one may be lost. It was verified at registration. Throws NOT_FOUND for a
 * user who is not a member with the role owner.
 */
export async function findMemberOwner(
  { sql, config }: Pick<ApiDeps, "sql" | "config">,
  { user, memberId }: { user: User; memberId: string },
): Promise<NewOwner> {
  const membership = await findMembership(sql, { merchantId: user.id, userId: memberId });
  const passkeys = await listSignInPasskeys(sql, memberId, config.passkey.rpId);
  const usedAt = ({ lastUsedAt, createdAt }: Passkey) => (lastUsedAt ?? createdAt).getTime();
  const [passkey] = passkeys.sort((one, other) => usedAt(other) - usedAt(one));
  if (membership?.role !== "owner" || !passkey) throw notFound("A member with the role owner and a passkey");
  return { owner: ownerOf(passkey), passkey: undefined, memberId };
}

/** The row of a passkey prepared as an owner: it can sign in once it is one. */
export async function storePasskey(tx: Tx, passkey: NewPasskey): Promise<void> {
  const own = await findPasskey(tx, passkey.id, passkey.userId);
  if (own && Buffer.from(own.coseKey).equals(passkey.coseKey)) return;
  if (!own && (await insertPasskey(tx, passkey))) return;
  throw invalid("add.passkeyResponse", "credential_in_use", "This passkey is already registered");
}

async function consume({ sql }: ApiDeps, user: User, challengeId: string): Promise<Challenge> {
  const challenge = await takeChallenge(sql, challengeId, { userId: user.id, purpose: "owner" });
  if (challenge) return challenge;
  throw invalid(
    "add.challengeId",
    "invalid_or_expired",
    "The challenge is unknown, used or expired; start again",
  );
}

function readAddress(text: string, { address, network }: { address: Hex; network: NetworkId }): Hex {
  const parsed = parseRecipient(text, { network, wallet: address });
  if (parsed.ok) return parsed.address;
  throw invalid("add.address", parsed.issue, "The address cannot be an owner of this wallet");
}

export function hostOf({ config }: Pick<ApiDeps, "config">): string {
  return new URL(config.baseUrl).host;
}
