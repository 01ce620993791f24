/**
 * Which link a USDC transfer pays. Pure: the same chain and the same ledger give the same answer, whether a block is read at
 * the head, in a large range or in a rebuild. Transfers come in chain order and are decided one transaction at a time:
 *
 *   0. the merchant's own assignment of this log
 *   1. the payment whose authorization it executed, if that was accepted before the block or relayed by us
 *   2. the link tag it carries (authorization nonce, calldata, relay)
 *   3. a proven claim: the sender signed which link the transfer pays
 *   4. an early claim, where the merchant trusts those: unproven, stored before the block was seen, and no other link's claim names the
 *      transaction
 *   5. the amount, when exactly one unpaid link fits at the transfer's block: its unique payAmount, or its plain amount where the merchant
 *      lets transfers match by amount (`matchByAmount`)
 *
 * A transfer that several links fit, with no evidence to decide between them, is received with `candidates`. What fits is evaluated at
 * the transfer's block: evidence 0 to 3 may settle it later; links that close later have no effect. Evidence 0 to 3 attributes a
 * transfer to its link whatever the link's status and the value; 4 and 5 apply only when the transfer pays the link, and never to one
 * of our relays that names no link in this database, or to a log that the merchant has unassigned. A use of a reusable link is not a candidate
 * by its plain amount.
 *
 * A transfer that a reorganisation brings back pays by amount only the link that it paid by amount before: links created, paid or released
 * in between are not considered.
 *
 * Of several authorizations for one link, db/payments/accept-payments.ts accepts one. What a wrong amount does to the link
 * (UNDERPAID, OVERPAID): db/links/recompute-link-status.ts.
 */
import { authorizationKey } from "./authorization.ts";
import { isLateFor, isOpenAt } from "./late-transfer.ts";
import type {
  AcceptanceFacts,
  AssignmentFacts,
  AttributableTransfer,
  ClaimFacts,
  FirstVerdict,
  LedgerSnapshot,
  LinkFacts,
  LogPlace,
  PaymentFacts,
} from "./ledger-snapshot.ts";
import { isExactAmount } from "./link.ts";
import { tagOfNonce } from "./link-tag.ts";
import type { Hex } from "./networks.ts";
import { isInferred, type SettledBy } from "./settled-by.ts";

/** Candidates stored with a transfer; a shop with one price may have thousands of open links. */
export const CANDIDATES_MAX = 20;

export type Attribution = {
  linkId: string;
  /** Whether this is the transfer that pays the link. */
  pays: boolean;
  settledBy: SettledBy;
  paymentId?: string;
  /** Whether it settles the payment: a failed one only while its link was free. */
  settlesPayment?: boolean;
  claimId?: string;
};

/** Without an attribution: the links that fit, if any. */
export type Verdict = { attribution?: Attribution; candidates: readonly string[] };

type Index = {
  links: Map<string, LinkFacts>;
  byTag: Map<Hex, LinkFacts>;
  fitting: Map<string, LinkFacts[]>;
  payments: Map<string, PaymentFacts>;
  claims: Map<string, ClaimFacts[]>;
  assignments: Map<string, AssignmentFacts>;
  firstVerdicts: Map<string, FirstVerdict>;
  taken: Set<string>;
  usedClaims: Set<string>;
};

const NO_LINK: Verdict = { candidates: [] };

/** One verdict per transfer, in order. `transfers` must be in chain order. */
export function attributeTransfers(
  transfers: readonly AttributableTransfer[],
  snapshot: LedgerSnapshot,
): Verdict[] {
  const index = indexSnapshot(snapshot);
  const verdicts: Verdict[] = [];
  for (let start = 0; start < transfers.length; ) {
    const txHash = transfers[start]?.txHash;
    let end = start + 1;
    while (transfers[end]?.txHash === txHash) end++;
    verdicts.push(...attributeTransaction(transfers.slice(start, end), index));
    start = end;
  }
  return verdicts;
}

/** Evidence about single logs comes first; a claim names only the transaction, so it takes the log that fits its link best. */
function attributeTransaction(own: readonly AttributableTransfer[], index: Index): Verdict[] {
  const found = new Map<AttributableTransfer, Attribution>();
  for (const transfer of own) {
    const attribution =
      byMerchant(transfer, index) ?? byAuthorization(transfer, index) ?? byTag(transfer, index);
    if (attribution) found.set(transfer, attribution);
  }
  const rest = () => own.filter((transfer) => !found.has(transfer));
  for (const [transfer, attribution] of byProofs(rest(), index)) found.set(transfer, attribution);
  const verdicts = own.map((transfer) => {
    const attribution = found.get(transfer);
    const verdict = attribution ? { attribution, candidates: [] } : withoutEvidence(transfer, index);
    return [transfer, withPayment(transfer, verdict, index)] as const;
  });
  return verdicts.map(([transfer, verdict]) => withClaim(transfer, verdict, index));
}

function byMerchant(transfer: AttributableTransfer, index: Index): Attribution | undefined {
  const assignment = index.assignments.get(placeKey(transfer));
  const link = assignment?.linkId === undefined ? undefined : index.links.get(assignment.linkId);
  if (!assignment || !link || link.recipient !== transfer.to) return undefined;
  return book(transfer, link, "merchant", index, { acceptsValue: assignment.accept });
}

function byAuthorization(transfer: AttributableTransfer, index: Index): Attribution | undefined {
  const payment = findPayment(transfer, index);
  const link = payment && index.links.get(payment.linkId);
  if (!payment || !link || !isTimely(payment, transfer)) return undefined;
  const isHeldByOther = link.livePaymentId !== undefined && link.livePaymentId !== payment.id;
  return isHeldByOther
    ? { linkId: link.id, pays: false, settledBy: "authorization" }
    : book(transfer, link, "authorization", index);
}

/**
 * Signature and nonce are public once executed: an authorization shown later proves nothing about the intended link. Block times are whole
 * seconds, and others may read the block within that second, so an acceptance within that second counts as later. A settled payment was shown in
 * time: only a reorganisation can put it into a block older than its acceptance. An authorization that was public when it was shown stays late,
 * whatever block a reorganisation puts it into.
 */
export function isTimely(
  payment: AcceptanceFacts,
  transfer: Pick<AttributableTransfer, "txHash" | "blockNumber" | "blockTimeMs">,
): boolean {
  if (payment.wasSettled || payment.relayHashes.includes(transfer.txHash)) return true;
  if (payment.wasPublic) return false;
  const wasAcceptedBefore =
    payment.acceptedBlock === undefined || payment.acceptedBlock < transfer.blockNumber;
  return wasAcceptedBefore && payment.acceptedAtMs < transfer.blockTimeMs;
}

/** A tag that names a link of this wallet excludes every other link, whatever the link's status. */
function byTag(transfer: AttributableTransfer, index: Index): Attribution | undefined {
  const { authorizationNonce, tag } = transfer;
  for (const given of [authorizationNonce && tagOfNonce(authorizationNonce), tag]) {
    const link = given && index.byTag.get(given);
    if (link && link.recipient === transfer.to) return book(transfer, link, "tag", index);
  }
  return undefined;
}

/** Each proven claim takes one log: first those with a value that their links ask for, so that a claim without one takes no other claim's. */
function byProofs(
  own: readonly AttributableTransfer[],
  index: Index,
): Map<AttributableTransfer, Attribution> {
  const found = new Map<AttributableTransfer, Attribution>();
  const claims = (index.claims.get(own[0]?.txHash ?? "") ?? []).filter(({ isProven }) => isProven);
  for (const isExact of [true, false])
    for (const claim of claims) {
      const link = index.links.get(claim.linkId);
      if (!link || index.usedClaims.has(claim.id)) continue;
      const transfer = own.find(
        (log) =>
          !found.has(log) &&
          log.from === claim.clientAddress &&
          log.to === link.recipient &&
          hasBegun(link, log) &&
          (!isExact || isExactAmount(link, log.amountUnits)),
      );
      if (!transfer) continue;
      index.usedClaims.add(claim.id);
      found.set(transfer, { ...book(transfer, link, "proof", index), claimId: claim.id });
    }
  return found;
}

/** Attributes a transfer to the link that evidence names; it pays when the link is unpaid and the value fits. */
function book(
  transfer: AttributableTransfer,
  link: LinkFacts,
  settledBy: SettledBy,
  index: Index,
  { acceptsValue = false } = {},
): Attribution {
  const isFree = !index.taken.has(link.id) && link.cancelledAtMs === undefined;
  const pays = isFree && (acceptsValue || isExactAmount(link, transfer.amountUnits));
  if (pays) index.taken.add(link.id);
  return { linkId: link.id, pays, settledBy };
}

/**
 * One of our relays that names no link in this database was a facilitated payment, or paid a link that a restored database has lost: it
 * was never meant for another link of the same amount.
 */
function withoutEvidence(transfer: AttributableTransfer, index: Index): Verdict {
  return transfer.isRelayed ? NO_LINK : byInference(transfer, index);
}

function byInference(transfer: AttributableTransfer, index: Index): Verdict {
  const candidates = findCandidates(transfer, index);
  const first = index.firstVerdicts.get(placeKey(transfer));
  const known = first && findPaidBefore(transfer, first, index);
  if (candidates.length === 0 && !known) return NO_LINK;
  const ids = candidates.slice(0, CANDIDATES_MAX).map(({ id }) => id);
  const isFreed = index.assignments.has(placeKey(transfer));
  if (isFreed) return { candidates: ids };
  const claims = claimsOf(transfer, index);
  const inferred = known ?? inferLink(transfer, { candidates, claims, wasSeen: first !== undefined }, index);
  if (!inferred) return { candidates: ids };
  const { link, settledBy, early } = inferred;
  index.taken.add(link.id);
  const claim = early ?? claims.find((one) => one.link === link)?.claim;
  if (claim) index.usedClaims.add(claim.id);
  const attribution = { linkId: link.id, pays: true, settledBy } as const;
  return { attribution: { ...attribution, ...(claim ? { claimId: claim.id } : {}) }, candidates: [] };
}

type Inferred = { link: LinkFacts; settledBy: SettledBy; early?: ClaimFacts };

/** The link that it paid without evidence before a reorganisation, whatever else fits. */
function findPaidBefore(
  transfer: AttributableTransfer,
  { linkId, settledBy }: FirstVerdict,
  index: Index,
): Inferred | undefined {
  const link = linkId === undefined ? undefined : index.links.get(linkId);
  if (!link || !settledBy || !isInferred(settledBy)) return undefined;
  return link.recipient === transfer.to && isPayable(link, index) && isExactAmount(link, transfer.amountUnits)
    ? { link, settledBy }
    : undefined;
}

function inferLink(
  transfer: AttributableTransfer,
  {
    candidates,
    claims,
    wasSeen,
  }: { candidates: readonly LinkFacts[]; claims: ReturnType<typeof claimsOf>; wasSeen: boolean },
  index: Index,
): Inferred | undefined {
  const payable = candidates.filter((link) => isPayable(link, index));
  const early = claims.find(
    ({ claim, link }) => claim.isEarly && link.trustsEarlyClaims && payable.includes(link),
  );
  if (early) return { link: early.link, settledBy: "early_claim", early: early.claim };
  const [only] = candidates;
  if (!only || wasSeen || candidates.length > 1 || payable.length !== 1) return undefined;
  if (only.payAmountUnits === transfer.amountUnits) return { link: only, settledBy: "pay_amount" };
  return only.matchByAmount ? { link: only, settledBy: "amount" } : undefined;
}

function isPayable({ id, cancelledAtMs }: LinkFacts, index: Index): boolean {
  return !index.taken.has(id) && cancelledAtMs === undefined;
}

/**
 * Links that fit and were unpaid at the transfer's position: the open ones, else the expired ones (late-transfer.ts). Limited to as many as prove
 * the transfer ambiguous: one transaction may contain thousands of transfers of the same amount.
 */
function findCandidates(transfer: AttributableTransfer, index: Index): LinkFacts[] {
  const { blockTimeMs } = transfer;
  const [open, late]: [LinkFacts[], LinkFacts[]] = [[], []];
  for (const link of index.fitting.get(fitKey(transfer.to, transfer.amountUnits)) ?? []) {
    const isUnpaid = !index.taken.has(link.id) || isPaidAfter(link, transfer);
    if (!isUnpaid || !hasBegun(link, transfer)) continue;
    if (isOpenAt(link, blockTimeMs)) open.push(link);
    else if (isLateFor(link, blockTimeMs)) late.push(link);
    if (open.length === CANDIDATES_MAX && !isNamed(transfer, index)) break;
  }
  return open.length > 0 ? open : late;
}

/** A claim may decide for any of the links, not only for the first ones found. */
function isNamed({ txHash }: AttributableTransfer, index: Index): boolean {
  return index.claims.has(txHash);
}

function isPaidAfter({ paidAt }: LinkFacts, { blockNumber, logIndex }: LogPlace): boolean {
  return !!paidAt && (paidAt.blockNumber - blockNumber || paidAt.logIndex - logIndex) > 0;
}

/** Unused claims that name this transfer's transaction and sender, of links whose lifetime includes its block. */
function claimsOf(transfer: AttributableTransfer, index: Index): { claim: ClaimFacts; link: LinkFacts }[] {
  return (index.claims.get(transfer.txHash) ?? []).flatMap((claim) => {
    const link = index.links.get(claim.linkId);
    const isFitting =
      link !== undefined &&
      !index.usedClaims.has(claim.id) &&
      claim.clientAddress === transfer.from &&
      link.recipient === transfer.to &&
      hasBegun(link, transfer) &&
      transfer.blockTimeMs <= link.expiresAtMs;
    return isFitting ? [{ claim, link }] : [];
  });
}

/**
 * Whatever decided, a payment whose authorization the transfer executed for its own link is settled by it: a FAILED one only when it
 * pays and no other payment holds the link. At most one payment of a link is not FAILED.
 */
function withPayment(transfer: AttributableTransfer, verdict: Verdict, index: Index): Verdict {
  const { attribution } = verdict;
  const payment = findPayment(transfer, index);
  const link = payment && index.links.get(payment.linkId);
  if (!attribution || !payment || payment.linkId !== attribution.linkId) return verdict;
  const isHeldByOther = link?.livePaymentId !== undefined && link.livePaymentId !== payment.id;
  if (payment.isFailed && isHeldByOther && attribution.pays) return verdict;
  const settlesPayment = attribution.pays || !payment.isFailed;
  return { ...verdict, attribution: { ...attribution, paymentId: payment.id, settlesPayment } };
}

/** Whatever decided, the sender's claim of this transaction for the same link is matched and no longer open. */
function withClaim(transfer: AttributableTransfer, verdict: Verdict, index: Index): Verdict {
  const { attribution } = verdict;
  if (!attribution || attribution.claimId !== undefined) return verdict;
  const claim = index.claims
    .get(transfer.txHash)
    ?.find(
      ({ id, linkId, clientAddress }) =>
        linkId === attribution.linkId && clientAddress === transfer.from && !index.usedClaims.has(id),
    );
  if (!claim) return verdict;
  index.usedClaims.add(claim.id);
  return { ...verdict, attribution: { ...attribution, claimId: claim.id } };
}

/** The payer may have signed the same nonce for another recipient or value. */
function findPayment(transfer: AttributableTransfer, index: Index): PaymentFacts | undefined {
  const { from, to, amountUnits, authorizationNonce } = transfer;
  if (!authorizationNonce) return undefined;
  const payment = index.payments.get(authorizationKey(from, authorizationNonce));
  return payment?.recipient === to && payment.amountUnits === amountUnits ? payment : undefined;
}

/** By height, because clocks differ. Without a height: block times are whole seconds, and the second of creation counts. */
function hasBegun(link: LinkFacts, { blockNumber, blockTimeMs }: AttributableTransfer): boolean {
  if (link.createdBlock !== undefined) return blockNumber > link.createdBlock;
  return startOfSecond(link.createdAtMs) <= blockTimeMs;
}

function indexSnapshot({ links, payments, claims, assignments, firstVerdicts }: LedgerSnapshot): Index {
  const fitting = new Map<string, LinkFacts[]>();
  const claimsByHash = new Map<string, ClaimFacts[]>();
  for (const link of links) {
    if (!link.isAddressed) append(fitting, fitKey(link.recipient, link.amountUnits), link);
    if (link.payAmountUnits !== undefined) append(fitting, fitKey(link.recipient, link.payAmountUnits), link);
  }
  for (const claim of claims) append(claimsByHash, claim.txHash, claim);
  return {
    links: new Map(links.map((link) => [link.id, link])),
    byTag: new Map(links.flatMap((link) => (link.tag ? [[link.tag, link] as const] : []))),
    fitting,
    payments: new Map(payments.map((payment) => [authorizationKey(payment.payer, payment.nonce), payment])),
    claims: claimsByHash,
    assignments: new Map(assignments.map((assignment) => [placeKey(assignment), assignment])),
    firstVerdicts: new Map(firstVerdicts.map((verdict) => [placeKey(verdict), verdict])),
    taken: new Set(links.filter((link) => link.isTaken).map((link) => link.id)),
    usedClaims: new Set(),
  };
}

function append<Value>(map: Map<string, Value[]>, key: string, value: Value): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

function fitKey(recipient: Hex, amountUnits: bigint): string {
  return `${recipient}:${amountUnits}`;
}

/** The place of a log as a key, in whichever block its transaction is. */
export function placeKey({ txHash, logIndex }: { txHash: Hex; logIndex: number }): string {
  return `${txHash}:${logIndex}`;
}

function startOfSecond(timeMs: number): number {
  return Math.floor(timeMs / 1000) * 1000;
}
