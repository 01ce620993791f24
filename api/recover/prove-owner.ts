/**
 * First half of a recovery: an address that owns the user's wallet signs a challenge. Only then is a code sent, so that no one
 * else can make us e-mail a user or invalidate their code. Unknown users and addresses get the same responses.
 */
import { createHash, randomUUID } from "node:crypto";
import { hashTypedData } from "viem";
import { isSignedByAddress } from "../../core/chain/address-signature.ts";
import { toAddressOwner } from "../../core/chain/passkey-account.ts";
import { OWNER_PROOF_LIFE_MS } from "../../core/domain/challenge-lifetime.ts";
import { invalid, ServiceError } from "../../core/domain/errors.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { OTP_LIFE_S } from "../../core/domain/otp.ts";
import { recoveryProofTypedData } from "../../core/domain/recovery-proof.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { findUserByEmail, lockUser } from "../../db/accounts/users.ts";
import { insertChallenge, takeChallenge } from "../../db/auth/challenges.ts";
import type { User } from "../../db/schema.ts";
import { listWallets } from "../../db/wallets/wallets.ts";
import { sendCode } from "../accounts/send-code.ts";
import { newChallenge } from "../auth/challenge.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { hostOf } from "../owners/new-owner.ts";
import { readWalletOwners } from "../owners/wallet-owners.ts";

/** The typed data to sign, for a challenge of this user; unknown users get a challenge that cannot succeed. */
export async function startRecovery(deps: ApiDeps, { email, address }: { email: string; address: Hex }) {
  const user = await findActive(deps, email);
  const challengeId = user
    ? (
        await newChallenge(deps.sql, {
          userId: user.id,
          purpose: "recover",
          network: null,
          lifeMs: OWNER_PROOF_LIFE_MS,
        })
      ).challengeId
    : `ch_${randomUUID()}`;
  const typedData = recoveryProofTypedData({ owner: address, challengeId, host: hostOf(deps) });
  return { challengeId, typedData, timeout: OWNER_PROOF_LIFE_MS };
}

export type Proof = { email: string; address: Hex; challengeId: string; signature: Hex };

/** Sends a code. Throws VALIDATION_ERROR when the proof does not prove an owner, RATE_LIMITED during the cool-down of codes. */
export async function proveOwner(deps: ApiDeps, proof: Proof, trace: Trace): Promise<void> {
  const user = await findActive(deps, proof.email);
  const challenge =
    user && (await takeChallenge(deps.sql, proof.challengeId, { userId: user.id, purpose: "recover" }));
  if (!user || !challenge || !(await isProven(deps, user, proof))) {
    if (user) await recordSecurityEvent(deps.sql, { userId: user.id, type: "recovery_refused", ...trace });
    throw invalid(
      "signature",
      "not_verified",
      "This does not prove ownership of a wallet of this account; start again",
    );
  }
  const sent = await deps.sql.begin(async (tx) => {
    await lockUser(tx, user.id);
    const code = await sendCode(tx, deps, { userId: user.id, trace });
    if (!code.sent) return code;
    await insertChallenge(tx, {
      ...{ id: `ch_${randomUUID()}`, userId: user.id, purpose: "recover_proven", network: null },
      challenge: digestOf(proof),
      lifeMs: OTP_LIFE_S * 1_000,
    });
    return code;
  });
  if (sent.sent) return;
  throw new ServiceError("RATE_LIMITED", `A code was sent recently; retry in ${sent.retryAfterS} s`, {
    headers: { "retry-after": String(sent.retryAfterS) },
    details: { field: "email", issue: "cool_down", retryAfterSeconds: sent.retryAfterS },
  });
}

/** Identifies the proof in the second half. */
export function digestOf({ address, signature }: Pick<Proof, "address" | "signature">): Uint8Array {
  return createHash("sha256").update(`${address}:${signature.toLowerCase()}`).digest();
}

/** The chains on which the address is an owner of the user's wallet now. Throws INTERNAL_ERROR when no chain says so and one is unavailable. */
export async function findOwnedChains(deps: ApiDeps, user: User, address: Hex): Promise<Chain[]> {
  const wallets = (await listWallets(deps.sql, user.id)).filter(({ network }) => deps.chains.has(network));
  const read = await Promise.allSettled(
    wallets.map(({ network }) => readWalletOwners(deps, { userId: user.id, network })),
  );
  const chains = read.flatMap((one) =>
    one.status === "fulfilled"
      ? one.value.filter(({ current }) => current.includes(toAddressOwner(address))).map(({ chain }) => chain)
      : [],
  );
  const failed = read.find((one) => one.status === "rejected");
  if (chains.length === 0 && failed) throw failed.reason;
  return chains;
}

async function isProven(deps: ApiDeps, user: User, proof: Proof): Promise<boolean> {
  const { address, challengeId, signature } = proof;
  const chains = await findOwnedChains(deps, user, address);
  if (chains.length === 0) return false;
  const digest = hashTypedData(recoveryProofTypedData({ owner: address, challengeId, host: hostOf(deps) }));
  try {
    return await isSignedByAddress(chains, { address, digest, signature });
  } catch (cause) {
    if (!(cause instanceof RpcTransportError)) throw cause;
    throw new ServiceError("INTERNAL_ERROR", "The signature could not be checked; start again", {
      details: { field: "signature", retryable: true, issue: "network_unreachable" },
      cause,
    });
  }
}

async function findActive({ sql }: ApiDeps, email: string): Promise<User | undefined> {
  const user = await findUserByEmail(sql, email);
  return user?.status === "ACTIVE" ? user : undefined;
}
