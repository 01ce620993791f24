/** Random small ledgers and chains for the attribution rules: few of everything, so that everything collides. */
import fc from "fast-check";
import type {
  AssignmentFacts,
  AttributableTransfer,
  ClaimFacts,
  LedgerSnapshot,
  LinkFacts,
  PaymentFacts,
} from "../../core/domain/attribute-transfers.ts";
import type { Hex } from "../../core/domain/networks.ts";

export type AttributionWorld = { transfers: AttributableTransfer[]; ledger: LedgerSnapshot };

/** `digit` (0 to 15) repeated over this many bytes. */
export const hex = (digit: number, bytes: number): Hex => `0x${digit.toString(16).repeat(bytes * 2)}`;
export const MERCHANTS = [hex(1, 20), hex(2, 20)] as const;
export const PAYERS = [hex(10, 20), hex(11, 20)] as const;
/** No link's: what a wallet appends for purposes of its own. */
const FOREIGN_TAG = hex(15, 16);
const BASE_BLOCK = 100;
const LINKS_MAX = 6;
const TRANSFERS_MAX = 8;

const pickOf = <Value>(values: readonly Value[]) => fc.constantFrom(...values);
const rarely = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined, freq: 1 });
const linkIndex = fc.nat(LINKS_MAX - 1);
/** Which of the nonces a payer signs; the first ones begin with the tag of that link. */
const nonceIndex = fc.nat(LINKS_MAX + 2);

const linkArbitrary = fc.record({
  merchant: fc.nat(1),
  amountUnits: pickOf([5n, 5n, 7n]),
  // 7 is also what other links ask for
  payAmountUnits: rarely(pickOf([6n, 7n])),
  createdS: fc.nat(6),
  hasBlock: fc.boolean(),
  lifeS: fc.integer({ min: 1, max: 8 }),
  cancelAfterS: fc.option(fc.nat(8), { nil: undefined, freq: 4 }),
});
const transferArbitrary = fc.record({
  from: pickOf(PAYERS),
  to: pickOf(MERCHANTS),
  amountUnits: pickOf([5n, 5n, 6n, 7n, 9n]),
  isNewTransaction: fc.boolean(),
  isNewBlock: fc.boolean(),
  nonce: rarely(nonceIndex),
  tag: fc.option(fc.nat(LINKS_MAX), { nil: undefined, freq: 3 }),
  isRelayed: fc.boolean(),
});
const paymentArbitrary = fc.record({
  link: linkIndex,
  payer: pickOf(PAYERS),
  nonce: nonceIndex,
  isFailed: fc.boolean(),
  acceptedS: fc.nat(8),
  hasBlock: fc.boolean(),
  relayedBy: rarely(fc.nat(TRANSFERS_MAX)),
});
const claimArbitrary = fc.record({
  link: linkIndex,
  transaction: fc.nat(TRANSFERS_MAX),
  payer: fc.nat(1),
  isProven: fc.boolean(),
  isEarly: fc.boolean(),
});
const assignmentArbitrary = fc.record({
  transfer: fc.nat(TRANSFERS_MAX - 1),
  link: rarely(linkIndex),
  accept: fc.boolean(),
});
const settingsArbitrary = fc.record({ matchByAmount: fc.boolean(), trustsEarlyClaims: fc.boolean() });

type Values<Type> = Type extends fc.Arbitrary<infer Value> ? Value : never;

export const attributionWorlds: fc.Arbitrary<AttributionWorld> = fc
  .record({
    links: fc.array(linkArbitrary, { minLength: 1, maxLength: LINKS_MAX }),
    transfers: fc.array(transferArbitrary, { minLength: 1, maxLength: TRANSFERS_MAX }),
    payments: fc.array(paymentArbitrary, { maxLength: 4 }),
    claims: fc.array(claimArbitrary, { maxLength: 5 }),
    assignments: fc.array(assignmentArbitrary, { maxLength: 2 }),
    settings: fc.tuple(settingsArbitrary, settingsArbitrary),
  })
  .map((given) => {
    const transfers = toTransfers(given.transfers);
    const links = toLinks(given.links, given.settings);
    const payments = toPayments(given.payments, links);
    return {
      transfers,
      ledger: {
        ...{ links, payments, claims: toClaims(given.claims, links) },
        assignments: toAssignments(given.assignments, { transfers, links }),
      },
    };
  });

function toTransfers(given: readonly Values<typeof transferArbitrary>[]): AttributableTransfer[] {
  let [transaction, timeS, logIndex] = [0, 1, 0];
  const executed = new Set<string>();
  return given.map(({ isNewTransaction, isNewBlock, nonce, tag, isRelayed, ...transfer }) => {
    if (isNewBlock) timeS++;
    if (isNewTransaction || isNewBlock) transaction++;
    // the token executes an authorization once
    const key = `${transfer.from}:${nonce}`;
    const authorizationNonce = nonce === undefined || executed.has(key) ? undefined : nonceOf(nonce);
    executed.add(key);
    return {
      ...{ ...transfer, authorizationNonce, txHash: hex(transaction, 32), logIndex: logIndex++ },
      ...{ blockNumber: BASE_BLOCK + timeS, blockTimeMs: timeS * 1_000 },
      ...(tag === undefined ? {} : { tag: tag < LINKS_MAX ? tagOf(tag) : FOREIGN_TAG, isRelayed }),
    };
  });
}

function tagOf(link: number): Hex {
  return hex(link + 1, 16);
}

function nonceOf(index: number): Hex {
  return index < LINKS_MAX ? `${tagOf(index)}${"00".repeat(16)}` : hex(index, 32);
}

function toLinks(
  given: readonly Values<typeof linkArbitrary>[],
  settings: readonly Values<typeof settingsArbitrary>[],
): LinkFacts[] {
  return given.map(({ merchant, createdS, hasBlock, lifeS, cancelAfterS, ...link }, index) => {
    const createdAtMs = createdS * 1_000 + 400;
    const { matchByAmount = true, trustsEarlyClaims = true } = settings[merchant] ?? {};
    return {
      ...{ ...link, id: `link${index}`, recipient: MERCHANTS[merchant] ?? MERCHANTS[0], tag: tagOf(index) },
      // a unique amount is always above the link's own
      payAmountUnits:
        link.payAmountUnits !== undefined && link.payAmountUnits > link.amountUnits
          ? link.payAmountUnits
          : undefined,
      ...{ createdAtMs, createdBlock: hasBlock ? BASE_BLOCK + createdS : undefined },
      expiresAtMs: createdAtMs + lifeS * 1_000,
      cancelledAtMs: cancelAfterS === undefined ? undefined : createdAtMs + cancelAfterS * 1_000,
      ...{ isTaken: false, livePaymentId: undefined, matchByAmount, trustsEarlyClaims },
    };
  });
}

/** As the database has them: an authorization once, and one live payment a link. */
function toPayments(given: readonly Values<typeof paymentArbitrary>[], links: LinkFacts[]): PaymentFacts[] {
  const seen = new Set<string>();
  return given.flatMap(({ link: place, payer, nonce, isFailed, acceptedS, hasBlock, relayedBy }, index) => {
    const link = links[place % links.length];
    const key = `${payer}:${nonce}`;
    if (!link || seen.has(key) || (!isFailed && link.livePaymentId !== undefined)) return [];
    seen.add(key);
    const id = `payment${index}`;
    if (!isFailed) link.livePaymentId = id;
    return [
      {
        ...{ id, linkId: link.id, payer, nonce: nonceOf(nonce), isFailed },
        ...{ recipient: link.recipient, amountUnits: link.amountUnits },
        ...{
          acceptedAtMs: acceptedS * 1_000 + 600,
          acceptedBlock: hasBlock ? BASE_BLOCK + acceptedS : undefined,
        },
        relayHashes: relayedBy === undefined ? [] : [hex(relayedBy, 32)],
      },
    ];
  });
}

function toClaims(
  given: readonly Values<typeof claimArbitrary>[],
  links: readonly LinkFacts[],
): ClaimFacts[] {
  return given.map(({ link, transaction, payer, ...claim }, index) => ({
    ...{ ...claim, id: `claim${index}`, linkId: links[link % links.length]?.id ?? "" },
    ...{ txHash: hex(transaction, 32), clientAddress: PAYERS[payer] ?? PAYERS[0] },
  }));
}

function toAssignments(
  given: readonly Values<typeof assignmentArbitrary>[],
  { transfers, links }: { transfers: readonly AttributableTransfer[]; links: readonly LinkFacts[] },
): AssignmentFacts[] {
  return given.flatMap(({ transfer: place, link, accept }) => {
    const transfer = transfers[place % transfers.length];
    if (!transfer) return [];
    const linkId = link === undefined ? undefined : links[link % links.length]?.id;
    return [{ txHash: transfer.txHash, logIndex: transfer.logIndex, linkId, accept }];
  });
}
