/** A payer says which transaction paid a link. The chain is asked at once, within bounds; what it does not know yet becomes a claim with a lease. */
import { type ClaimLook, lookAtClaim } from "../../core/chain/look-at-claim.ts";
import { RpcTransportError } from "../../core/chain/rpc-errors.ts";
import { CLAIM_LEASE_S, nextLookInS } from "../../core/domain/claim.ts";
import { conflict, notFound, ServiceError } from "../../core/domain/errors.ts";
import { newClaimId, newTransactionId } from "../../core/domain/ids.ts";
import type { LinkStatus } from "../../core/domain/link.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { areLogsTaken, findClaim, openClaim } from "../../db/claims.ts";
import { findPublicLink, type PublicLink } from "../../db/links.ts";
import { enqueue } from "../../db/queue.ts";
import type { ApiDeps } from "../http/deps.ts";

export type Claimed = { linkId: string; txHash: Hex; clientAddress: Hex };

/** The request waits for the chain no longer than this. */
const LOOK_TIMEOUT_MS = 3_000;

/**
 * The link's status after the claim. `takeTurn` counts a claim that is not known yet against its limit and throws when it is one
 * too many. Throws NOT_FOUND, CONFLICT when the link is not open or the transfer counts elsewhere, and VALIDATION_ERROR
 * `does_not_pay_this_link` when the transaction is in a block and does not pay it.
 */
export async function claimLink(
  deps: Pick<ApiDeps, "sql" | "chains">,
  claimed: Claimed,
  { takeTurn, requestId }: { takeTurn: () => Promise<void>; requestId: string },
): Promise<LinkStatus> {
  const link = await findPublicLink(deps.sql, claimed.linkId);
  if (!link) throw notFound("Payment link");
  const known = await findClaim(deps.sql, claimed);
  if (known?.state === "OPEN" || known?.state === "MATCHED") return link.status;
  refuseClosed(link.status);
  await takeTurn();
  await refuseWrong(deps, link, claimed);
  await deps.sql.begin(async (tx) => {
    const opened = await openClaim(tx, {
      ...claimed,
      id: newClaimId(),
      network: link.network,
      requestId,
      transactionId: newTransactionId(),
      leaseS: CLAIM_LEASE_S,
    });
    if (!opened) throw closed((await findPublicLink(tx, link.id))?.status ?? link.status);
    if (opened.isNew) {
      const runAt = new Date(Date.now() + nextLookInS(0) * 1000);
      await enqueue(tx, "check_claim", { claimId: opened.claim.id, requestId }, { runAt });
    }
  });
  return "PENDING";
}

function refuseClosed(status: LinkStatus): void {
  if (status !== "ACTIVE" && status !== "PENDING") throw closed(status);
}

function closed(status: LinkStatus): ServiceError {
  return conflict(`This payment link is ${status}`, { field: "linkId", issue: status });
}

async function refuseWrong(
  { sql, chains }: Pick<ApiDeps, "sql" | "chains">,
  link: PublicLink,
  claimed: Claimed,
): Promise<void> {
  const chain = chains.get(link.network);
  const look = chain && (await withinBounds(lookAtClaim(chain, { ...link, ...claimed })));
  switch (look?.kind) {
    case undefined:
    case "unknown":
    case "waiting":
      return;
    case "pays": {
      const { linkId, txHash, clientAddress } = claimed;
      const place = { linkId, network: link.network, txHash, payer: clientAddress };
      if (await areLogsTaken(sql, place, look.logs))
        throw conflict("This transfer counts for another payment", {
          field: "transactionHash",
          issue: "counted_elsewhere",
        });
      return;
    }
    case "reverted":
    case "other_amount":
    case "unrelated":
      throw new ServiceError("VALIDATION_ERROR", "This transaction does not pay this link", {
        details: { field: "transactionHash", issue: "does_not_pay_this_link" },
      });
  }
}

/** Undefined when nothing was learnt in time: then the claim is looked at later. */
async function withinBounds(look: Promise<ClaimLook>): Promise<ClaimLook | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, LOOK_TIMEOUT_MS, undefined);
  });
  const learnt = look.catch((error: unknown) => {
    if (error instanceof RpcTransportError) return undefined;
    throw error;
  });
  try {
    return await Promise.race([learnt, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
