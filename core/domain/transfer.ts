/**
 * Which link a USDC transfer pays. Pure: the same chain and the same books give the same answer, whether a block is read
 * at the head, in a large range or in a rebuild. Transfers are given in the chain's order and decided one after another:
 *
 *   1. the payment whose authorization it executed, whoever broadcast it, unless that was long before its link was made
 *   2. the link a payer's claim names by this transaction, with this amount, inside the link's time
 *   3. the only open link with this amount and recipient; when none was open, the only expired one (late)
 *   4. a claimed link that it does not pay: too little, too much, or a second time (exception, the link stays as it is)
 *
 * Otherwise it is money received without a link. Time is the block's, never ours.
 */
import type { Hex } from "./networks.ts";

/** The chain's clock may be this far behind ours: what we relay for a new link must not count as older than it. */
const CLOCK_SKEW_MS = 60_000;

export type AttributableTransfer = {
  txHash: Hex;
  from: Hex;
  to: Hex;
  amountUnits: bigint;
  blockTimeMs: number;
  /** Nonce of the authorization it executed. */
  authorizationNonce: Hex | undefined;
};

export type LinkFacts = {
  id: string;
  recipient: Hex;
  amountUnits: bigint;
  createdAtMs: number;
  expiresAtMs: number;
  cancelledAtMs: number | undefined;
  /** A transfer that pays it is in the books. */
  isTaken: boolean;
  livePaymentId: string | undefined;
};
export type PaymentFacts = {
  id: string;
  linkId: string;
  payer: Hex;
  nonce: Hex;
  recipient: Hex;
  amountUnits: bigint;
  isFailed: boolean;
};
export type ClaimFacts = { id: string; linkId: string; txHash: Hex; clientAddress: Hex };

/** Everything in the database that the given transfers could settle. Claims are in the order they were made. */
export type Books = {
  links: readonly LinkFacts[];
  payments: readonly PaymentFacts[];
  claims: readonly ClaimFacts[];
};

export type Attribution = {
  linkId: string;
  /** Whether this is the transfer that pays the link. */
  pays: boolean;
  paymentId?: string;
  /** Whether the payment is settled by it: a failed one only while its link was free. */
  settlesPayment?: boolean;
  claimId?: string;
};

type Shelf = {
  links: Map<string, LinkFacts>;
  fitting: Map<string, LinkFacts[]>;
  payments: Map<string, PaymentFacts>;
  claims: Map<string, ClaimFacts[]>;
  taken: Set<string>;
  usedClaims: Set<string>;
};

/** One answer a transfer, in their order; undefined means no link. `transfers` must be in the chain's order. */
export function attributeTransfers(
  transfers: readonly AttributableTransfer[],
  books: Books,
): (Attribution | undefined)[] {
  const shelf = sortBooks(books);
  const answers: (Attribution | undefined)[] = [];
  for (let start = 0; start < transfers.length; ) {
    const txHash = transfers[start]?.txHash;
    let end = start + 1;
    while (transfers[end]?.txHash === txHash) end++;
    // a whole transaction at a time: a claim's exact transfer may be behind one that does not fit
    const own = transfers.slice(start, end);
    const exact = own.map(
      (transfer) => byPayment(transfer, shelf) ?? byClaim(transfer, shelf) ?? byAmount(transfer, shelf),
    );
    const paidHere = new Set(exact.flatMap((answer) => (answer?.pays ? [answer.linkId] : [])));
    for (const [index, transfer] of own.entries())
      answers.push(exact[index] ?? byMisfit(transfer, shelf, paidHere));
    start = end;
  }
  return answers;
}

function byPayment(transfer: AttributableTransfer, shelf: Shelf): Attribution | undefined {
  const { authorizationNonce } = transfer;
  if (!authorizationNonce) return undefined;
  const payment = shelf.payments.get(authorizationKey(transfer.from, authorizationNonce));
  const link = payment && shelf.links.get(payment.linkId);
  // the payer may have signed the same nonce for somebody else
  if (!payment || !link || payment.recipient !== transfer.to || payment.amountUnits !== transfer.amountUnits)
    return undefined;
  // an authorization that was executed for something else is not shown to a link made afterwards
  if (!hasBegun(link, transfer.blockTimeMs + CLOCK_SKEW_MS)) return undefined;
  const isTaken = shelf.taken.has(link.id);
  const isHeldByOther = link.livePaymentId !== undefined && link.livePaymentId !== payment.id;
  const isFree = !isTaken && link.cancelledAtMs === undefined && !isHeldByOther;
  const pays = isFree && link.amountUnits === transfer.amountUnits;
  if (pays) shelf.taken.add(link.id);
  return { linkId: link.id, pays, paymentId: payment.id, settlesPayment: pays || !payment.isFailed };
}

function byClaim(transfer: AttributableTransfer, shelf: Shelf): Attribution | undefined {
  for (const { claim, link } of claimsOf(transfer, shelf)) {
    if (link.amountUnits !== transfer.amountUnits || shelf.taken.has(link.id)) continue;
    if (link.cancelledAtMs !== undefined) continue;
    shelf.taken.add(link.id);
    shelf.usedClaims.add(claim.id);
    return { linkId: link.id, pays: true, claimId: claim.id };
  }
  return undefined;
}

function byAmount(transfer: AttributableTransfer, shelf: Shelf): Attribution | undefined {
  const unpaid = (shelf.fitting.get(fitKey(transfer.to, transfer.amountUnits)) ?? []).filter(
    (link) => !shelf.taken.has(link.id) && hasBegun(link, transfer.blockTimeMs),
  );
  const open = unpaid.filter((link) => isOpenAt(link, transfer.blockTimeMs));
  const late = unpaid.filter(
    (link) => link.expiresAtMs < transfer.blockTimeMs && link.cancelledAtMs === undefined,
  );
  const candidates = open.length > 0 ? open : late;
  const [only] = candidates;
  if (!only || candidates.length > 1 || only.cancelledAtMs !== undefined) return undefined;
  shelf.taken.add(only.id);
  const claim = claimsOf(transfer, shelf).find((one) => one.link.id === only.id)?.claim;
  if (claim) shelf.usedClaims.add(claim.id);
  return { linkId: only.id, pays: true, ...(claim ? { claimId: claim.id } : {}) };
}

function byMisfit(
  transfer: AttributableTransfer,
  shelf: Shelf,
  paidHere: ReadonlySet<string>,
): Attribution | undefined {
  const found = claimsOf(transfer, shelf).find(({ link }) => {
    const isMisfit = link.amountUnits !== transfer.amountUnits || shelf.taken.has(link.id);
    return isMisfit && !paidHere.has(link.id);
  });
  if (!found) return undefined;
  shelf.usedClaims.add(found.claim.id);
  return { linkId: found.link.id, pays: false, claimId: found.claim.id };
}

/** Unused claims that name this transfer's transaction, payer and recipient, and links whose time its block is in. */
function claimsOf(transfer: AttributableTransfer, shelf: Shelf): { claim: ClaimFacts; link: LinkFacts }[] {
  return (shelf.claims.get(transfer.txHash) ?? []).flatMap((claim) => {
    const link = shelf.links.get(claim.linkId);
    const isFitting =
      link !== undefined &&
      !shelf.usedClaims.has(claim.id) &&
      claim.clientAddress === transfer.from &&
      link.recipient === transfer.to &&
      hasBegun(link, transfer.blockTimeMs) &&
      transfer.blockTimeMs <= link.expiresAtMs;
    return isFitting ? [{ claim, link }] : [];
  });
}

/** Block times are whole seconds: a link made within a block's second had begun. */
function hasBegun(link: LinkFacts, timeMs: number): boolean {
  return Math.floor(link.createdAtMs / 1000) * 1000 <= timeMs;
}

function isOpenAt(link: LinkFacts, timeMs: number): boolean {
  const isCancelled = link.cancelledAtMs !== undefined && link.cancelledAtMs <= timeMs;
  return !isCancelled && timeMs <= link.expiresAtMs;
}

function sortBooks(books: Books): Shelf {
  const fitting = new Map<string, LinkFacts[]>();
  const claims = new Map<string, ClaimFacts[]>();
  for (const link of books.links) append(fitting, fitKey(link.recipient, link.amountUnits), link);
  for (const claim of books.claims) append(claims, claim.txHash, claim);
  return {
    links: new Map(books.links.map((link) => [link.id, link])),
    fitting,
    payments: new Map(
      books.payments.map((payment) => [authorizationKey(payment.payer, payment.nonce), payment]),
    ),
    claims,
    taken: new Set(books.links.filter((link) => link.isTaken).map((link) => link.id)),
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

/** One key an authorization (EIP-3009: a nonce is used once by a payer). */
export function authorizationKey(payer: Hex, nonce: Hex): string {
  return `${payer}:${nonce}`;
}
