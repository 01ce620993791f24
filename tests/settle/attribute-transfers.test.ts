/** Which link a transfer pays, as the pure function decides it: each rule just inside and just outside. */
import { describe, expect, test } from "bun:test";
import { attributeTransfers, CANDIDATES_MAX, isTimely } from "../../core/domain/attribute-transfers.ts";
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

const address = (digit: string): Hex => `0x${digit.repeat(40)}`;
const word = (digit: string): Hex => `0x${digit.repeat(64)}`;
const TAG: Hex = `0x${"7".repeat(32)}`;
/** Of the transfer's block, in the middle of a second for what is compared by whole seconds. */
const TIME_MS = 1_800_000_000_000;
const UNITS = 5_000n;

const TRANSFER: AttributableTransfer = {
  ...{ txHash: word("a"), logIndex: 3, from: address("f"), to: address("1"), amountUnits: UNITS },
  ...{ blockNumber: 50, blockTimeMs: TIME_MS, authorizationNonce: undefined },
};
const LINK: LinkFacts = {
  ...{ id: "link_1", recipient: TRANSFER.to, tag: undefined, amountUnits: UNITS, payAmountUnits: undefined },
  ...{ createdAtMs: TIME_MS - 60_000, createdBlock: 40, expiresAtMs: TIME_MS + 60_000 },
  ...{ cancelledAtMs: undefined, isTaken: false, livePaymentId: undefined },
  ...{ matchByAmount: true, trustsEarlyClaims: true },
};
const PAYMENT: PaymentFacts = {
  ...{ id: "pay_1", linkId: LINK.id, payer: TRANSFER.from, nonce: word("b"), recipient: TRANSFER.to },
  ...{
    amountUnits: UNITS,
    isFailed: false,
    acceptedAtMs: TIME_MS - 1,
    acceptedBlock: 49,
    relayHashes: [],
    wasSettled: false,
    wasPublic: false,
  },
};
const CLAIM: ClaimFacts = {
  ...{ id: "claim_1", linkId: LINK.id, txHash: TRANSFER.txHash, clientAddress: TRANSFER.from },
  ...{ isProven: false, isEarly: true },
};
const ASSIGNMENT: AssignmentFacts = {
  ...{ txHash: TRANSFER.txHash, logIndex: TRANSFER.logIndex, linkId: LINK.id, accept: false },
};
const FIRST_VERDICT: FirstVerdict = {
  ...{ txHash: TRANSFER.txHash, logIndex: TRANSFER.logIndex, linkId: LINK.id, settledBy: "amount" },
};
const link = (change: Partial<LinkFacts> = {}): LinkFacts => ({ ...LINK, ...change });
const other = (change: Partial<LinkFacts> = {}): LinkFacts => link({ id: "link_2", ...change });

function decide(snapshot: Partial<LedgerSnapshot>, ...changes: Partial<AttributableTransfer>[]) {
  const transfers = (changes.length > 0 ? changes : [{}]).map((change) => ({ ...TRANSFER, ...change }));
  return attributeTransfers(transfers, {
    links: [LINK],
    payments: [],
    claims: [],
    assignments: [],
    firstVerdicts: [],
    ...snapshot,
  });
}

/** What pays which link by what evidence: "link_1 by amount", "link_1 booked by tag", or the candidates. */
function outcomes(...given: Parameters<typeof decide>): string[] {
  return decide(...given).map(({ attribution, candidates }) =>
    attribution
      ? `${attribution.linkId}${attribution.pays ? "" : " booked"} by ${attribution.settledBy}`
      : candidates.join("|"),
  );
}

describe("a transfer without evidence", () => {
  const cases: [title: string, links: LinkFacts[], outcome: string][] = [
    ["pays the only link of its amount", [link()], "link_1 by amount"],
    ["pays none of another amount", [link({ amountUnits: UNITS + 1n })], ""],
    ["pays none of another wallet", [link({ recipient: address("2") })], ""],
    ["leaves two links of its amount undecided", [link(), other()], "link_1|link_2"],
    [
      "pays the link whose payAmount it is",
      [link({ amountUnits: UNITS - 9n, payAmountUnits: UNITS })],
      "link_1 by pay_amount",
    ],
    [
      "leaves a payAmount undecided that is another link's amount",
      [link({ amountUnits: UNITS - 9n, payAmountUnits: UNITS }), other()],
      "link_1|link_2",
    ],
    ["leaves a link undecided that is not matched by amount", [link({ matchByAmount: false })], "link_1"],
    [
      "pays by payAmount a link that is not matched by amount",
      [link({ matchByAmount: false, amountUnits: 1n, payAmountUnits: UNITS })],
      "link_1 by pay_amount",
    ],
    ["pays no use of a reusable link by its plain amount", [link({ isAddressed: true })], ""],
    ["pays a link created in the block before", [link({ createdBlock: 49 })], "link_1 by amount"],
    ["pays no link created at its block", [link({ createdBlock: 50 })], ""],
    [
      "pays a link created within its second, when no height is known",
      [link({ createdBlock: undefined, createdAtMs: TIME_MS + 999 })],
      "link_1 by amount",
    ],
    [
      "pays no link created in the second after",
      [link({ createdBlock: undefined, createdAtMs: TIME_MS + 1_000 })],
      "",
    ],
    ["pays a link at its end", [link({ expiresAtMs: TIME_MS })], "link_1 by amount"],
    ["pays an expired link when no open one fits", [link({ expiresAtMs: TIME_MS - 1 })], "link_1 by amount"],
    [
      "prefers an open link to an expired one",
      [link({ expiresAtMs: TIME_MS - 1 }), other()],
      "link_2 by amount",
    ],
    ["pays no link cancelled by then", [link({ cancelledAtMs: TIME_MS })], ""],
    [
      "names a link cancelled after its block and pays it not",
      [link({ cancelledAtMs: TIME_MS + 1 })],
      "link_1",
    ],
    [
      "pays no link that is expired and cancelled",
      [link({ expiresAtMs: TIME_MS - 1, cancelledAtMs: TIME_MS + 1 })],
      "",
    ],
    ["pays no link that is paid", [link({ isTaken: true })], ""],
    [
      "names a link that a later log of its block paid",
      [link({ isTaken: true, paidAt: { blockNumber: 50, logIndex: 4 } })],
      "link_1",
    ],
    [
      "names a link that a later block paid",
      [link({ isTaken: true, paidAt: { blockNumber: 51, logIndex: 0 } })],
      "link_1",
    ],
    [
      "names no link that an earlier block paid",
      [link({ isTaken: true, paidAt: { blockNumber: 49, logIndex: 9 } })],
      "",
    ],
    [
      "names no link that this very log paid",
      [link({ isTaken: true, paidAt: { blockNumber: 50, logIndex: 3 } })],
      "",
    ],
    [
      "leaves an open link undecided beside one that was paid later",
      [link(), other({ isTaken: true, paidAt: { blockNumber: 51, logIndex: 0 } })],
      "link_1|link_2",
    ],
  ];
  test.each(cases)("a transfer %s", (_title, links, outcome) => {
    expect(outcomes({ links })).toEqual([outcome]);
  });

  test(`a transfer stores ${CANDIDATES_MAX} candidates at most`, () => {
    expect(CANDIDATES_MAX).toBe(20);
    const links = Array.from({ length: 25 }, (_, index) => link({ id: `link_${index}` }));
    expect(decide({ links })[0]?.candidates).toEqual(links.slice(0, 20).map(({ id }) => id));
  });

  test("two transfers of one amount do not pay one link twice", () => {
    expect(outcomes({}, {}, { logIndex: 4 })).toEqual(["link_1 by amount", ""]);
    expect(outcomes({}, {}, { txHash: word("c"), blockNumber: 51 })).toEqual(["link_1 by amount", ""]);
  });

  test("one of our relays that names no link pays none by its amount", () => {
    expect(outcomes({}, { isRelayed: true })).toEqual([""]);
  });
});

describe("a tag", () => {
  const links = [link({ tag: TAG }), other()];
  test("a tag in calldata or nonce names its link among those of its amount", () => {
    expect(outcomes({ links }, { tag: TAG })).toEqual(["link_1 by tag"]);
    const nonce: Hex = `${TAG}${"9".repeat(32)}`;
    expect(outcomes({ links }, { authorizationNonce: nonce })).toEqual(["link_1 by tag"]);
  });

  test("a tag attributes another amount, and a transfer after the link was cancelled or paid", () => {
    expect(outcomes({ links }, { tag: TAG, amountUnits: 1n })).toEqual(["link_1 booked by tag"]);
    expect(outcomes({ links: [link({ tag: TAG, isTaken: true })] }, { tag: TAG })).toEqual([
      "link_1 booked by tag",
    ]);
    expect(outcomes({ links: [link({ tag: TAG, cancelledAtMs: 1 })] }, { tag: TAG })).toEqual([
      "link_1 booked by tag",
    ]);
  });

  test("a tag names no link of another wallet", () => {
    expect(outcomes({ links: [link({ tag: TAG, recipient: address("2") })] }, { tag: TAG })).toEqual([""]);
  });
});

describe("an authorization", () => {
  const executed = { authorizationNonce: PAYMENT.nonce };
  const byPayment = (change: Partial<PaymentFacts> = {}, linkChange: Partial<LinkFacts> = {}) =>
    outcomes({ links: [link(linkChange), other()], payments: [{ ...PAYMENT, ...change }] }, executed)[0];

  test("an authorization accepted before its block decides", () => {
    expect(byPayment()).toBe("link_1 by authorization");
    expect(byPayment({ acceptedBlock: undefined })).toBe("link_1 by authorization");
  });

  test("an authorization accepted at or within the second of its block decides only if we relayed it or it settled before", () => {
    expect(byPayment({ acceptedBlock: 50 })).toBe("link_1|link_2");
    expect(byPayment({ acceptedAtMs: TIME_MS })).toBe("link_1|link_2");
    expect(byPayment({ acceptedBlock: 50, acceptedAtMs: TIME_MS, relayHashes: [TRANSFER.txHash] })).toBe(
      "link_1 by authorization",
    );
    expect(byPayment({ acceptedBlock: 50, acceptedAtMs: TIME_MS, wasSettled: true })).toBe(
      "link_1 by authorization",
    );
    expect(isTimely({ ...PAYMENT, relayHashes: [word("d")], acceptedBlock: 50 }, TRANSFER)).toBe(false);
    expect(byPayment({ wasPublic: true })).toBe("link_1|link_2");
    expect(byPayment({ wasPublic: true, wasSettled: true })).toBe("link_1 by authorization");
  });

  test("an authorization of another payer, nonce, recipient, amount or an unknown link decides nothing", () => {
    for (const change of [
      { linkId: "link_9" },
      { payer: address("e") },
      { nonce: word("e") },
      { recipient: address("2") },
      { amountUnits: 1n },
    ])
      expect(byPayment(change)).toBe("link_1|link_2");
  });

  test("a link held by another live payment is not paid by it; its own live payment is no obstacle", () => {
    expect(byPayment({}, { livePaymentId: "pay_2" })).toBe("link_1 booked by authorization");
    expect(byPayment({}, { livePaymentId: "pay_1" })).toBe("link_1 by authorization");
  });

  const settles = (change: Partial<PaymentFacts>, linkChange: Partial<LinkFacts> = {}) =>
    decide({ links: [link(linkChange), other()], payments: [{ ...PAYMENT, ...change }] }, executed)[0]
      ?.attribution;

  test("the payment is settled with its transfer; a failed one only when the transfer pays", () => {
    expect(settles({})).toMatchObject({ paymentId: "pay_1", settlesPayment: true });
    expect(settles({}, { isTaken: true })).toMatchObject({ pays: false, settlesPayment: true });
    expect(settles({ isFailed: true })).toMatchObject({ pays: true, settlesPayment: true });
    expect(settles({ isFailed: true }, { isTaken: true })).toMatchObject({
      ...{ pays: false, settlesPayment: false },
    });
  });

  test("a failed payment is not settled by a transfer that pays its link while another payment holds it", () => {
    const payments = [{ ...PAYMENT, isFailed: true, acceptedBlock: 50 }];
    const [verdict] = decide({ links: [link({ livePaymentId: "pay_2" })], payments }, executed);
    expect(verdict?.attribution).toEqual({ linkId: "link_1", pays: true, settledBy: "amount" });
  });
});

describe("a claim", () => {
  const links = [LINK, other()];
  const claimed = (
    change: Partial<ClaimFacts>,
    given: LinkFacts[] = links,
    ...on: Partial<AttributableTransfer>[]
  ) => outcomes({ links: given, claims: [{ ...CLAIM, ...change }] }, ...on);

  test("an early claim decides between two links, a late one does not", () => {
    expect(claimed({})).toEqual(["link_1 by early_claim"]);
    expect(claimed({ isEarly: false })).toEqual(["link_1|link_2"]);
  });

  test("an early claim of another sender or transaction, or of a merchant who trusts only proofs, decides nothing", () => {
    expect(claimed({ clientAddress: address("e") })).toEqual(["link_1|link_2"]);
    expect(claimed({ txHash: word("e") })).toEqual(["link_1|link_2"]);
    expect(claimed({}, [link({ trustsEarlyClaims: false }), other()])).toEqual(["link_1|link_2"]);
  });

  test("an early claim counts up to its link's expiry, not after", () => {
    expect(claimed({}, [link({ expiresAtMs: TIME_MS }), other()])).toEqual(["link_1 by early_claim"]);
    expect(claimed({}, [link({ expiresAtMs: TIME_MS - 1 }), other({ expiresAtMs: TIME_MS - 1 })])).toEqual([
      "link_1|link_2",
    ]);
  });

  test("a claim of a known link beyond the first candidates still decides", () => {
    const many = Array.from({ length: 30 }, (_, index) => link({ id: `link_${index + 10}` }));
    expect(claimed({ linkId: "link_39" }, many)).toEqual(["link_39 by early_claim"]);
  });

  test("a proven claim also decides late and for another amount, but for no unknown link, wallet or sender", () => {
    const proven = { isProven: true, isEarly: false };
    expect(claimed(proven)).toEqual(["link_1 by proof"]);
    expect(claimed(proven, links, { amountUnits: 1n })).toEqual(["link_1 booked by proof"]);
    expect(claimed({ ...proven, linkId: "link_9" })).toEqual(["link_1|link_2"]);
    expect(claimed({ ...proven, clientAddress: address("e") })).toEqual(["link_1|link_2"]);
    expect(claimed(proven, [link({ recipient: address("2") }), other()])).toEqual(["link_2 by amount"]);
    expect(claimed(proven, [link({ createdBlock: 50 }), other()])).toEqual(["link_2 by amount"]);
  });

  test("a proven claim takes the log of its amount before others, and one log only", () => {
    const logs = [{ logIndex: 1, amountUnits: 1n }, { logIndex: 2 }, { logIndex: 3, amountUnits: 2n }];
    expect(claimed({ isProven: true }, links, ...logs)).toEqual(["", "link_1 by proof", ""]);
    expect(
      claimed({ isProven: true }, links, { logIndex: 1, amountUnits: 1n }, { logIndex: 2, amountUnits: 2n }),
    ).toEqual(["link_1 booked by proof", ""]);
  });

  test("a late claim for a link of another amount is not matched by a transfer that pays the only fitting link", () => {
    const claims = [{ ...CLAIM, linkId: "link_2", isEarly: false }];
    expect(decide({ links: [LINK, other({ amountUnits: 9n })], claims })[0]?.attribution).toEqual({
      ...{ linkId: "link_1", pays: true, settledBy: "amount" },
    });
  });

  test("a claim is matched by the transfer that pays its link, whatever evidence decided", () => {
    const claims = [{ ...CLAIM, isEarly: false }];
    expect(decide({ claims })[0]?.attribution).toEqual({
      ...{ linkId: "link_1", pays: true, settledBy: "amount", claimId: "claim_1" },
    });
    const tagged = decide({ links: [link({ tag: TAG }), other()], claims }, { tag: TAG })[0];
    expect(tagged?.attribution?.claimId).toBe("claim_1");
    for (const change of [{ linkId: "link_2" }, { clientAddress: address("e") }])
      expect(
        decide({ links: [link({ tag: TAG }), other()], claims: [{ ...CLAIM, ...change }] }, { tag: TAG })[0]
          ?.attribution?.claimId,
      ).toBeUndefined();
  });
});

describe("a merchant's assignment", () => {
  const assigned = (change: Partial<AssignmentFacts>, ...on: Partial<AttributableTransfer>[]) =>
    outcomes({ links: [LINK, other()], assignments: [{ ...ASSIGNMENT, ...change }] }, ...on);

  test("an assignment takes precedence over everything; another amount pays only if the merchant accepts it", () => {
    expect(assigned({})).toEqual(["link_1 by merchant"]);
    expect(assigned({}, { amountUnits: 1n })).toEqual(["link_1 booked by merchant"]);
    expect(assigned({ accept: true }, { amountUnits: 1n })).toEqual(["link_1 by merchant"]);
  });

  test("an assignment of another log, or of a link of another wallet, decides nothing", () => {
    expect(assigned({ logIndex: 4 })).toEqual(["link_1|link_2"]);
    const links = [link({ recipient: address("2") })];
    expect(outcomes({ links, assignments: [ASSIGNMENT] })).toEqual([""]);
  });

  test("a transfer that was unassigned is not attributed by its amount again", () => {
    expect(outcomes({ assignments: [{ ...ASSIGNMENT, linkId: undefined }] })).toEqual(["link_1"]);
  });
});

describe("a transfer that returns after a reorganisation", () => {
  const UNLINKED = { linkId: undefined, settledBy: undefined };
  const again = (change: Partial<FirstVerdict>, snapshot: Partial<LedgerSnapshot> = {}) =>
    outcomes({ links: [LINK, other()], firstVerdicts: [{ ...FIRST_VERDICT, ...change }], ...snapshot });

  test("pays the link that it paid without evidence, whatever else fits by now", () => {
    expect(again({})).toEqual(["link_1 by amount"]);
    expect(again({ settledBy: "pay_amount" })).toEqual(["link_1 by pay_amount"]);
    expect(again({ settledBy: "early_claim" }, { claims: [CLAIM] })).toEqual(["link_1 by early_claim"]);
    const expired = link({ expiresAtMs: TIME_MS - 1 });
    expect(again({}, { links: [expired, other()] })).toEqual(["link_1 by amount"]);
    const claims = [{ ...CLAIM, linkId: "link_2" }];
    expect(again({}, { claims })).toEqual(["link_1 by amount"]);
  });

  test("pays nothing by its amount if its link is paid, cancelled, another wallet's or for another amount", () => {
    const changes = [{ isTaken: true }, { cancelledAtMs: TIME_MS }, { recipient: address("2") }];
    for (const change of [...changes, { amountUnits: 1n }])
      expect(again({}, { links: [link(change), other()] })).toEqual(["link_2"]);
  });

  test("pays nothing by its amount if it was received without a link, or paid one by evidence", () => {
    expect(again(UNLINKED, { links: [LINK] })).toEqual(["link_1"]);
    const unique = link({ payAmountUnits: UNITS, amountUnits: 1n });
    expect(again(UNLINKED, { links: [unique] })).toEqual(["link_1"]);
    for (const settledBy of ["tag", "merchant"] as const)
      expect(again({ settledBy }, { links: [LINK] })).toEqual(["link_1"]);
  });

  test("evidence and the merchant's decisions come first", () => {
    const snapshot = { links: [LINK, other({ tag: TAG })], firstVerdicts: [FIRST_VERDICT] };
    expect(outcomes(snapshot, { tag: TAG })).toEqual(["link_2 by tag"]);
    const freed = [{ ...ASSIGNMENT, linkId: undefined }];
    expect(again({}, { assignments: freed })).toEqual(["link_1|link_2"]);
    const early = [{ ...CLAIM, linkId: "link_2" }];
    expect(again(UNLINKED, { claims: early })).toEqual(["link_2 by early_claim"]);
  });

  test("another log of its transaction is judged for the first time", () => {
    expect(again({ logIndex: 4 }, { links: [LINK] })).toEqual(["link_1 by amount"]);
    expect(again({ logIndex: 4 })).toEqual(["link_1|link_2"]);
  });
});
