/**
 * Polls the chain for a claimed transaction, 2, 4, 8, 16, 32 and 64 seconds after the claim, and releases the link when the lease
 * ends. It never marks a link as paid, which only the indexer does; it only ends claims that are wrong or unsuccessful.
 */

import { type ClaimCheck, inspectClaim } from "../../core/chain/inspect-claim.ts";
import { KNOWN_LEASE_S, KNOWN_MAX_S, KNOWN_POLL_S, nextCheckInS } from "../../core/domain/claim.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { Log } from "../../core/runtime/log.ts";
import { enqueue, type JobPayload } from "../../db/jobs/queue.ts";
import { areLogsTaken, findOpenClaim, notePoll, type OpenClaim } from "../../db/links/claims.ts";
import { demoteUndecided, endClaim } from "../../db/links/end-claims.ts";
import type { Sql } from "../../db/postgres/client.ts";

export type ClaimDeps = { sql: Sql; log: Log; chains: ReadonlyMap<NetworkId, Chain> };

/** Retry delay when no node responded. */
const UNAVAILABLE_RETRY_S = 5;

/** Always returns: a claim that is still unknown is polled again. */
export async function checkClaim(deps: ClaimDeps, payload: JobPayload<"check_claim">): Promise<void> {
  const { sql, chains } = deps;
  const claim = await findOpenClaim(sql, payload.claimId);
  if (!claim) return;
  const chain = chains.get(claim.network);
  const found = chain ? await inspectOrUndefined(chain, claim) : undefined;
  switch (found?.kind) {
    case "reverted":
      // not REJECTED: if its block is reorganised away, the next check may decide differently
      return end(deps, claim, { state: "EXPIRED", reason: "reverted", isProven: true });
    case "unrelated":
      return end(deps, claim, { state: "REJECTED", reason: "does_not_pay_this_link", isProven: false });
    case "other_amount":
      // a proof attributes any value to its link, however late the indexer is; without a proof, a different value does not pay
      if (claim.isProven) return waitForSettlement(deps, claim, payload);
      return end(deps, claim, { state: "EXPIRED", reason: "other_amount", isProven: false });
    case "pays":
      if (await areLogsTaken(sql, { ...claim, payer: claim.clientAddress }, found.logs))
        return end(deps, claim, { state: "EXPIRED", reason: "counted_elsewhere", isProven: false });
      return waitForSettlement(deps, claim, payload);
    case "waiting":
      return waitForSettlement(deps, claim, payload);
    case "unknown":
    case undefined:
      if (claim.isLeaseOver)
        return end(deps, claim, { state: "EXPIRED", reason: "not_found", isProven: false });
      return pollAgain(deps, claim, payload, {
        inS: found ? nextCheckInS((Date.now() - claim.createdAt.getTime()) / 1000) : UNAVAILABLE_RETRY_S,
      });
  }
}

/** A node knows the transaction, so the indexer settles it in bounded time, unless the transfer has been received and fits several links. */
async function waitForSettlement(
  deps: ClaimDeps,
  claim: OpenClaim,
  payload: JobPayload<"check_claim">,
): Promise<void> {
  if (await deps.sql.begin((tx) => demoteUndecided(tx, claim))) {
    deps.log.info({ claimId: claim.id, linkId: claim.linkId }, "claim needs a proof");
    return;
  }
  if (Date.now() - claim.createdAt.getTime() > KNOWN_MAX_S * 1000)
    return end(deps, claim, { state: "EXPIRED", reason: "not_settled", isProven: false });
  deps.log.debug(
    { claimId: claim.id, linkId: claim.linkId, requestId: payload.requestId },
    "claimed transaction is known",
  );
  return pollAgain(deps, claim, payload, { leaseS: KNOWN_LEASE_S, inS: KNOWN_POLL_S });
}

async function inspectOrUndefined(chain: Chain, claim: OpenClaim): Promise<ClaimCheck | undefined> {
  try {
    return await inspectClaim(chain, {
      ...claim,
      createdAt: claim.linkCreatedAt,
      isProven: claim.isProven,
    });
  } catch (error) {
    if (error instanceof RpcTransportError) return undefined;
    throw error;
  }
}

async function pollAgain(
  { sql }: ClaimDeps,
  claim: OpenClaim,
  payload: JobPayload<"check_claim">,
  { inS, leaseS }: { inS: number; leaseS?: number },
): Promise<void> {
  await sql.begin(async (tx) => {
    await notePoll(tx, claim.id, leaseS);
    await enqueue(tx, "check_claim", payload, { runAt: new Date(Date.now() + inS * 1000) });
  });
}

async function end(
  { sql, log }: ClaimDeps,
  claim: OpenClaim,
  outcome: { state: "REJECTED" | "EXPIRED"; reason: string; isProven: boolean },
): Promise<void> {
  const { id, updatedAtMicros } = claim;
  if (!(await sql.begin((tx) => endClaim(tx, { id, updatedAtMicros, ...outcome })))) return;
  log.info({ claimId: id, linkId: claim.linkId, reason: outcome.reason }, "claim ended");
}
