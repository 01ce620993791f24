/** Random small ledgers and chains for the attribution rules, with few distinct values, so that collisions are frequent. */
import fc from "fast-check";
import type {
  AssignmentFacts,
  AttributableTransfer,
  ClaimFacts,
  FirstVerdict,
  LedgerSnapshot,
  LinkFacts,
  PaymentFacts,
} from "../../core/domain/ledger-snapshot.ts";
import type { Hex } from "../../core/domain/networks.ts";

export type AttributionWorld = { transfers: AttributableTransfer[]; ledger: LedgerSnapshot };

/** `digit` (0 to 15) repeated over this many bytes. */
export const hex = (digit: number, bytes: number): Hex => `0x${digit.toString(16).repeat(bytes * 2)}`;
export const MERCHANTS = [hex(1, 20), hex(2, 20)] as const;
export const PAYERS = [hex(10, 20), hex(11, 20)] as const;
/** No link's tag: bytes that a wallet appends for its own purposes. */
const FOREIGN_TAG = hex(15, 16);
const BASE_BLOCK = 100;
const LINKS_MAX = 6;
const TRANSFERS_MAX = 8;

const pickOf = <Value>(values: readonly Value[]) => fc.constantFrom(...values);
/** True once in `of` times on average. */
const oneIn = <Value>(of: number, arbitrary: fc.Arbitrary<Value>) =>
  fc.oneof({ weight: of - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
const chance = (of: number) => oneIn(of, fc.constant(true)).map((isSo) => isSo === true);
const linkIndex = fc.nat(LINKS_MAX - 1);
/** The nonces a payer signs; the first ones begin with the tag of that link. */
const nonceIndex = fc.nat(LINKS_MAX + 2);

const linkArbitrary = fc.record({
  merchant: fc.nat(1),
  amountUnits: pickOf([5n, 5n, 7n]),
  // 7 is also the amount of other links
  payAmountUnits: oneIn(2, pickOf([6n, 7n])),
  createdS: fc.nat(4),
  hasBlock: fc.boolean(),
  lifeS: fc.integer({ min: 1, max: 9 }),
  cancelAfterS: oneIn(5, fc.nat(8)),
});
const transferArbitrary = fc.record({
  from: pickOf(PAYERS),
  to: pickOf(MERCHANTS),
  amountUnits: pickOf([5n, 5n, 6n, 7n, 9n]),
  isNewTransaction: fc.boolean(),
  isNewBlock: fc.boolean(),
  nonce: oneIn(2, nonceIndex),
  tag: oneIn(5, fc.nat(LINKS_MAX)),
  isRelayed: fc.boolean(),
});
const paymentArbitrary = fc.record({
  link: linkIndex,
  /** The transfer that executes it, if any. */
  transfer: fc.nat(TRANSFERS_MAX - 1),
  isFailed: fc.boolean(),
  /** After that transfer's block. */
  acceptedAfterS: fc.integer({ min: -2, max: 1 }),
  hasBlock: fc.boolean(),
  isRelayed: chance(4),
});
const claimArbitrary = fc.record({
  link: linkIndex,
  transfer: fc.nat(TRANSFERS_MAX - 1),
  isStrangers: chance(4),
  isProven: fc.boolean(),
  isEarly: fc.boolean(),
});
const assignmentArbitrary = fc.record({
  transfer: fc.nat(TRANSFERS_MAX - 1),
  link: oneIn(2, linkIndex),
  accept: fc.boolean(),
});
const firstVerdictArbitrary = fc.record({
  transfer: fc.nat(TRANSFERS_MAX - 1),
  link: oneIn(2, linkIndex),
  settledBy: pickOf(["amount", "pay_amount", "early_claim", "tag"] as const),
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
    firstVerdicts: fc.array(firstVerdictArbitrary, { maxLength: 2 }),
    settings: fc.tuple(settingsArbitrary, settingsArbitrary),
  })
  .map((given) => {
    const transfers = toTransfers(given.transfers);
    const links = toLinks(given.links, given.settings);
    const placed = { transfers, links };
    const payments = toPayments(given.payments, placed);
    return {
      transfers,
      ledger: {
        ...{ links, payments, claims: toClaims(given.claims, placed) },
        assignments: toAssignments(given.assignments, placed),
        firstVerdicts: toFirstVerdicts(given.firstVerdicts, placed),
      },
    };
  });

function toTransfers(given: readonly Values<typeof transferArbitrary>[]): AttributableTransfer[] {
  let [transaction, timeS, logIndex] = [0, 1, 0];
  const executed = new Set<string>();
  return given.map(({ isNewTransaction, isNewBlock, nonce, tag, isRelayed, ...transfer }) => {
    if (isNewBlock) timeS++;
    if (isNewTransaction || isNewBlock) transaction++;
    // an authorization is executed once
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

type Placed = { transfers: readonly AttributableTransfer[]; links: readonly LinkFacts[] };

/** As in the database: an authorization once, and one live payment per link. */
function toPayments(
  given: readonly Values<typeof paymentArbitrary>[],
  { transfers, links }: Placed,
): PaymentFacts[] {
  const seen = new Set<string>();
  return given.flatMap(
    ({ link: place, transfer: at, isFailed, acceptedAfterS, hasBlock, isRelayed }, index) => {
      const executing = transfers[at % transfers.length];
      const link = links[place % links.length];
      const key = `${executing?.from}:${executing?.authorizationNonce}`;
      if (!executing?.authorizationNonce || !link || seen.has(key)) return [];
      if (!isFailed && link.livePaymentId !== undefined) return [];
      seen.add(key);
      const id = `payment${index}`;
      if (!isFailed) link.livePaymentId = id;
      const { from: payer, authorizationNonce: nonce, blockNumber, blockTimeMs, txHash } = executing;
      return [
        {
          ...{ id, linkId: link.id, payer, nonce, isFailed },
          ...{ recipient: link.recipient, amountUnits: link.amountUnits },
          acceptedAtMs: blockTimeMs + acceptedAfterS * 1_000 + 600,
          acceptedBlock: hasBlock ? blockNumber + acceptedAfterS : undefined,
          ...{ relayHashes: isRelayed ? [txHash] : [], wasSettled: false, wasPublic: false },
        },
      ];
    },
  );
}

function toClaims(
  given: readonly Values<typeof claimArbitrary>[],
  { transfers, links }: Placed,
): ClaimFacts[] {
  return given.flatMap(({ link, transfer: at, isStrangers, ...claim }, index) => {
    const transfer = transfers[at % transfers.length];
    if (!transfer) return [];
    const clientAddress = isStrangers ? PAYERS.find((payer) => payer !== transfer.from) : transfer.from;
    return [
      {
        ...{ ...claim, id: `claim${index}`, linkId: links[link % links.length]?.id ?? "" },
        ...{ txHash: transfer.txHash, clientAddress: clientAddress ?? transfer.from },
      },
    ];
  });
}

function toAssignments(
  given: readonly Values<typeof assignmentArbitrary>[],
  { transfers, links }: Placed,
): AssignmentFacts[] {
  return given.flatMap(({ transfer: place, link, accept }) => {
    const transfer = transfers[place % transfers.length];
    if (!transfer) return [];
    const linkId = link === undefined ? undefined : links[link % links.length]?.id;
    return [{ txHash: transfer.txHash, logIndex: transfer.logIndex, linkId, accept }];
  });
}

/** As in the database: one of a transfer. */
function toFirstVerdicts(
  given: readonly Values<typeof firstVerdictArbitrary>[],
  { transfers, links }: Placed,
): FirstVerdict[] {
  const verdicts = new Map<AttributableTransfer, FirstVerdict>();
  for (const { transfer: place, link, settledBy } of given) {
    const transfer = transfers[place % transfers.length];
    if (!transfer) continue;
    const { txHash, logIndex } = transfer;
    const linkId = link === undefined ? undefined : links[link % links.length]?.id;
    verdicts.set(transfer, {
      txHash,
      logIndex,
      linkId,
      settledBy: linkId === undefined ? undefined : settledBy,
    });
  }
  return [...verdicts.values()];
}
