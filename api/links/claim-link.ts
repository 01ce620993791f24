/**
 * A payer states which transaction paid a link, optionally with a proof. The chain is checked immediately, within limits; an unknown
 * transaction becomes a claim with a lease.
 */

import { type ClaimCheck, inspectClaim } from "../../core/chain/inspect-claim.ts";
import { verifyClaimProof } from "../../core/chain/verify-claim-proof.ts";
import { CLAIM_LEASE_S, nextCheckInS } from "../../core/domain/claim.ts";
import { type ClaimTerms, claimTypedData } from "../../core/domain/claim-proof.ts";
import { conflict, invalid, notFound, ServiceError } from "../../core/domain/errors.ts";
import { newClaimId, newTransactionId } from "../../core/domain/ids.ts";
import type { Language } from "../../core/domain/language.ts";
import { isOpenStatus, type LinkStatus } from "../../core/domain/link.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { areLogsTaken, findClaim, openClaim } from "../../db/links/claims.ts";
import { demoteUndecided } from "../../db/links/end-claims.ts";
import { findPublicLink, type PublicLink } from "../../db/links/links.ts";
import type { ApiDeps } from "../http/deps.ts";

type ClaimDeps = Pick<ApiDeps, "sql" | "chains" | "config">;

/**
 * `signature`: by `clientAddress`, of the claim's typed data. `payerLanguage`: of the page that the payer saw;
 * undefined for programs.
 */
export type Claimed = {
  linkId: string;
  txHash: Hex;
  clientAddress: Hex;
  signature?: Hex | undefined;
  payerLanguage: Language | undefined;
};

/** `typedData`: what the payer may sign to make the claim decide. */
export type ClaimAnswer = { status: LinkStatus; typedData?: ReturnType<typeof claimTypedData> };

/** Maximum time the request waits for the chain. */
const LOOK_TIMEOUT_MS = 3_000;
/** A claimed transaction's receipt may have 27 MB. Claims beyond this number are checked by the worker, a few at a time. */
const LOOKS_AT_ONCE = 12;
let looks = 0;

/**
 * The link's status after the claim. `takeTurn` counts a new claim against its rate limit and throws when that is exceeded.
 * Throws NOT_FOUND; CONFLICT when the transfer counts elsewhere or, without a proof, the link is not open; VALIDATION_ERROR
 * `does_not_pay_this_link` for a mined transaction that does not pay it, `invalid_signature` for a proof that is not the sender's;
 * INTERNAL_ERROR (retryable) when a contract's signature could not be checked.
 */
export async function claimLink(
  deps: ClaimDeps,
  claimed: Claimed,
  { takeTurn, requestId }: { takeTurn: () => Promise<void>; requestId: string },
): Promise<ClaimAnswer> {
  // before the link, so that the link shows what the claim has changed
  const known = await findClaim(deps.sql, claimed);
  const link = await findPublicLink(deps.sql, claimed.linkId);
  if (!link) throw notFound("Payment link");
  if (link.isReusable)
    throw conflict("This is a reusable payment link; claim one of its uses", {
      field: "linkId",
      issue: "reusable_link",
    });
  const terms = termsOf(deps, link, claimed.txHash);
  const isStored =
    known?.state === "MATCHED" ||
    (known?.state === "OPEN" && !(await deps.sql.begin((tx) => demoteUndecided(tx, known))));
  if (isStored && claimed.signature === undefined) return { status: link.status };
  if (!claimed.signature && !isOpenStatus(link.status)) throw closed(link.status, terms);
  await takeTurn();
  const proof = claimed.signature ? await readProof(deps, terms, claimed) : null;
  const look = await lookWithinBounds(deps, link, claimed, proof !== null);
  await refuseWrong(deps, claimed, { look, terms, isProven: proof !== null });
  // early only when a node confirmed that the transaction is not mined: without a response it may already be public
  const mayHaveBlock = look?.kind !== "unknown" && look?.kind !== "waiting";
  return deps.sql.begin(async (tx) => {
    const opened = await openClaim(tx, {
      ...claimed,
      id: newClaimId(),
      network: link.network,
      requestId,
      transactionId: newTransactionId(),
      leaseS: CLAIM_LEASE_S,
      proof,
      mayHaveBlock,
    });
    const now = (await findPublicLink(tx, link.id)) ?? link;
    if (!opened) throw closed(now.status, terms);
    if (opened.isNew) {
      const runAt = new Date(Date.now() + nextCheckInS(0) * 1000);
      await enqueue(tx, "check_claim", { claimId: opened.claim.id, requestId }, { runAt });
    }
    return { status: now.status, ...(opened.proofRequired ? { typedData: claimTypedData(terms) } : {}) };
  });
}

function termsOf({ config }: ClaimDeps, link: PublicLink, transactionHash: Hex): ClaimTerms {
  return {
    linkId: link.id,
    network: link.network,
    merchantName: link.displayName ?? defaultMerchantName(link.email),
    amountUnits: link.amountUnits,
    recipient: link.recipient,
    transactionHash,
    host: new URL(config.baseUrl).host,
  };
}

async function readProof(
  { chains }: ClaimDeps,
  terms: ClaimTerms,
  { clientAddress, signature = "0x" }: Claimed,
): Promise<"EOA" | "CONTRACT"> {
  const chain = chains.get(terms.network);
  if (!chain) throw unverifiable();
  const proof = await verifyClaimProof(chain, terms, { signer: clientAddress, signature }).catch(
    (error: unknown) => {
      if (error instanceof RpcTransportError) throw unverifiable(error);
      throw error;
    },
  );
  if (proof) return proof;
  throw invalid(
    "signature",
    "invalid_signature",
    "signature is not a valid signature of clientWalletAddress for this claim",
  );
}

function unverifiable(cause?: unknown): ServiceError {
  return new ServiceError("INTERNAL_ERROR", "The signature could not be checked; retry", {
    details: { field: "signature", retryable: true },
    cause,
  });
}

/** A proven claim is still accepted, so the refusal includes the typed data to sign. */
function closed(status: LinkStatus, terms: ClaimTerms): ServiceError {
  return conflict(`This payment link is ${status}`, {
    field: "linkId",
    issue: status,
    typedData: claimTypedData(terms),
  });
}

async function refuseWrong(
  { sql }: ClaimDeps,
  { linkId, txHash, clientAddress }: Claimed,
  { look, terms, isProven }: { look: ClaimCheck | undefined; terms: ClaimTerms; isProven: boolean },
): Promise<void> {
  switch (look?.kind) {
    case undefined:
    case "unknown":
    case "waiting":
      return;
    case "pays": {
      const place = { linkId, network: terms.network, txHash, payer: clientAddress, isProven };
      if (await areLogsTaken(sql, place, look.logs))
        throw conflict("This transfer is already attributed to another payment", {
          field: "transactionHash",
          issue: "counted_elsewhere",
          ...(isProven ? {} : { typedData: claimTypedData(terms) }),
        });
      return;
    }
    case "other_amount":
      if (isProven) return;
      throw doesNotPay();
    case "reverted":
    case "unrelated":
      throw doesNotPay();
  }
}

function doesNotPay(): ServiceError {
  return new ServiceError("VALIDATION_ERROR", "This transaction does not pay this link", {
    details: { field: "transactionHash", issue: "does_not_pay_this_link" },
  });
}

/** Undefined when no node responded in time, or too many checks are running: the chain is checked again later. */
async function lookWithinBounds(
  { chains }: ClaimDeps,
  link: PublicLink,
  claimed: Claimed,
  isProven: boolean,
): Promise<ClaimCheck | undefined> {
  const chain = chains.get(link.network);
  if (!chain || looks >= LOOKS_AT_ONCE) return undefined;
  looks += 1;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, LOOK_TIMEOUT_MS, undefined);
  });
  const learnt = inspectClaim(chain, { ...link, ...claimed, isProven })
    .catch((error: unknown) => {
      if (error instanceof RpcTransportError) return undefined;
      throw error;
    })
    // also after the timeout: the response stays in memory until then
    .finally(() => {
      looks -= 1;
    });
  try {
    return await Promise.race([learnt, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
