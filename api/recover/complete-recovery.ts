/**
 * Second half of a recovery: the code from the mailbox, with the proof given before, opens a session that can only register a passkey. It
 * ends all other sessions and e-mails the user. The new passkey can sign in once the address owner has made it an owner on chain.
 */
import { encodeAddOwner } from "../../core/chain/passkey-account.ts";
import { invalid, ServiceError } from "../../core/domain/errors.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { nameOfOwner } from "../../core/domain/notice-mail.ts";
import { isOtpCode, OTP_ATTEMPTS_MAX } from "../../core/domain/otp.ts";
import { addressOfOwner, type OwnerSlots } from "../../core/domain/owner.ts";
import { DEPLOYMENT_MINIMUM_SENDS } from "../../core/domain/wallet-operation.ts";
import { consumeOtp, secondsLocked, takeOtpAttempt } from "../../db/accounts/otps.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { findUserByEmail, lockUserByEmail } from "../../db/accounts/users.ts";
import { hasChallengeOf, takeChallengeOf } from "../../db/auth/challenges.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { addNotice } from "../../db/notices/notices.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Session, User, Wallet } from "../../db/schema.ts";
import { deleteOtherSessions } from "../../db/sessions/sessions.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type PasskeyAnswer, storePasskey, verifyPasskeyOwner } from "../owners/new-owner.ts";
import { readWalletOwners, type WalletOwners } from "../owners/wallet-owners.ts";
import { type Browser, startSession } from "../sessions/start-session.ts";
import { readWalletBalance } from "../wallets/read-balance.ts";
import { digestOf, findOwnedChains } from "./prove-owner.ts";

export type RecoveryRequest = {
  email: string;
  code: string;
  address: Hex;
  signature: Hex;
  browser: Browser;
  trace: Trace;
};

type Outcome =
  | { user: User; session: Session }
  | { refusal: "invalid" }
  | { refusal: "locked"; retryAfterS: number };

/** One message for wrong, expired, used and unknown; RATE_LIMITED when a code has no attempts left. */
export async function recover(deps: ApiDeps, request: RecoveryRequest) {
  // a refusal is a value until the transaction has committed, because the consumed attempt must persist
  const isOwner = await isStillOwner(deps, request);
  const outcome = await deps.sql.begin((tx) => tryCode(tx, deps, { ...request, isOwner }));
  if (!("refusal" in outcome)) return outcome;
  if (outcome.refusal === "invalid")
    throw invalid("otp", "invalid_or_expired", "The code or the proof is wrong or has expired");
  throw new ServiceError("RATE_LIMITED", "Too many wrong codes; start again", {
    headers: { "retry-after": String(outcome.retryAfterS) },
    details: { field: "otp", issue: "too_many_attempts" },
  });
}

/** Asked before the transaction: a node that hangs must not keep the user's row locked, on which the indexer would wait. */
async function isStillOwner(deps: ApiDeps, request: RecoveryRequest): Promise<boolean> {
  const user = await findUserByEmail(deps.sql, request.email);
  if (user?.status !== "ACTIVE") return false;
  const meant = { userId: user.id, purpose: "recover_proven" as const };
  if (!(await hasChallengeOf(deps.sql, digestOf(request), meant))) return false;
  return (await findOwnedChains(deps, user, request.address)).length > 0;
}

async function tryCode(
  tx: Tx,
  deps: ApiDeps,
  request: RecoveryRequest & { isOwner: boolean },
): Promise<Outcome> {
  const { email, code, address, isOwner, browser, trace } = request;
  const user = await lockUserByEmail(tx, email);
  if (user?.status !== "ACTIVE") return { refusal: "invalid" };
  // only a request with the proof for which the code was sent counts as an attempt
  const meant = { userId: user.id, purpose: "recover_proven" as const };
  if (!(await hasChallengeOf(tx, digestOf(request), meant))) return { refusal: "invalid" };
  const otp = await takeOtpAttempt(tx, user.id);
  if (!otp) {
    const retryAfterS = await secondsLocked(tx, user.id);
    return retryAfterS === undefined ? { refusal: "invalid" } : { refusal: "locked", retryAfterS };
  }
  if (!isOtpCode(deps.config.otpPeppers, otp, code)) {
    const type = otp.attempts >= OTP_ATTEMPTS_MAX ? "otp_locked" : "otp_refused";
    await recordSecurityEvent(tx, { userId: user.id, type, ...trace });
    return { refusal: "invalid" };
  }
  if (!(await takeChallengeOf(tx, digestOf(request), meant))) return { refusal: "invalid" };
  if (!isOwner) return { refusal: "invalid" };
  if (!(await consumeOtp(tx, otp.id))) return { refusal: "invalid" };
  const session = await startSession(tx, { user, method: "recovery", browser, trace });
  const ended = await deleteOtherSessions(tx, user.id, session.id);
  const details = { address, endedSessions: ended };
  await recordSecurityEvent(tx, { userId: user.id, type: "recovery_started", ...trace, details });
  await addNotice(tx, {
    ...{ userId: user.id, kind: "recovery", key: `recovery:${session.id}` },
    details: { owner: nameOfOwner(address) },
  });
  return { user, session };
}

export type OwnerCall = {
  network: NetworkId;
  chainId: number;
  to: Hex;
  data: Hex;
  /** Sent earlier it would have no effect. */
  waitsForOwner: boolean;
};

/**
 * Registers the passkey. Returns the transactions with which an address owner makes it an owner, one for each network that has such an owner,
 * or will have one.
 */
export async function registerPasskey(
  deps: ApiDeps,
  { user, answer, trace }: { user: User; answer: PasskeyAnswer; trace: Trace },
): Promise<{ passkeyId: string; transactions: OwnerCall[] }> {
  const { passkey, owner } = await verifyPasskeyOwner(deps, { user, trace }, answer);
  if (!passkey) throw new Error("a registration returned no passkey");
  const wallets = await readWalletOwners(deps, { userId: user.id, network: undefined });
  const data = encodeAddOwner({ x: owner.slice(0, 66) as Hex, y: `0x${owner.slice(66)}` });
  const deployed = await listDeployable(deps, wallets);
  await deps.sql.begin(async (tx) => {
    await storePasskey(tx, passkey);
    const details = { passkeyId: passkey.id };
    await recordSecurityEvent(tx, { userId: user.id, type: "passkey_added", ...trace, details });
    for (const { id: walletId } of deployed) {
      const payload = { walletId, requestId: trace.requestId, isForRecovery: true as const };
      await enqueue(tx, "deploy_wallet", payload);
    }
  });
  const transactions = wallets
    .filter(({ coming }) => hasAddress(coming))
    .map(({ wallet: { network, address: to }, current }) => ({
      network,
      chainId: NETWORKS[network].chainId,
      to,
      data,
      waitsForOwner: !hasAddress(current),
    }));
  return { passkeyId: passkey.id, transactions };
}

/**
 * Accounts to be deployed: an address whose addition waits for that can do nothing before. Where gas costs money, only for a wallet whose first
 * send would deploy it, too.
 */
async function listDeployable(deps: ApiDeps, wallets: readonly WalletOwners[]): Promise<Wallet[]> {
  const listed: Wallet[] = [];
  for (const { wallet, state, waiting } of wallets) {
    if (state.isDeployed || waiting.length === 0) continue;
    if (NETWORKS[wallet.network].isTestnet || (await holdsEnough(deps, wallet))) listed.push(wallet);
  }
  return listed;
}

async function holdsEnough(deps: ApiDeps, { userId, network }: Wallet): Promise<boolean> {
  const { units } = await readWalletBalance(deps, { userId, network });
  return units >= DEPLOYMENT_MINIMUM_SENDS * deps.config.sendMinUnits;
}

const hasAddress = (owners: OwnerSlots) =>
  owners.some((owner) => owner !== undefined && addressOfOwner(owner) !== undefined);
