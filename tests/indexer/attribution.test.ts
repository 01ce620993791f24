import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Hex } from "../../core/domain/networks.ts";
import {
  type AttributableTransfer,
  type Attribution,
  attributeTransfers,
  type Books,
  type LinkFacts,
} from "../../core/domain/transfer.ts";

const hex = (digit: number, bytes: number): Hex => `0x${digit.toString(16).repeat(bytes * 2)}`;
const MERCHANTS = [hex(1, 20), hex(2, 20)];
const PAYERS = [hex(10, 20), hex(11, 20)];
const pickOf = <Value>(values: readonly Value[]) => fc.constantFrom(...values);

// few of everything, so that everything collides
const linkArbitrary = fc.record({
  recipient: pickOf(MERCHANTS),
  amountUnits: pickOf([5n, 7n]),
  createdAtMs: fc.integer({ min: 0, max: 6 }).map((s) => s * 1_000 + 400),
  lifeS: fc.integer({ min: 1, max: 8 }),
  cancelAfterS: fc.option(fc.integer({ min: 0, max: 8 }), { nil: undefined, freq: 4 }),
});
const transferArbitrary = fc.record({
  from: pickOf(PAYERS),
  to: pickOf(MERCHANTS),
  amountUnits: pickOf([5n, 5n, 7n, 6n]),
  isNewTransaction: fc.boolean(),
  isNewBlock: fc.boolean(),
  nonce: fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined }),
});
const claimArbitrary = fc.record({ link: fc.nat(5), transaction: fc.nat(7), payer: fc.nat(1) });
const paymentArbitrary = fc.record({
  link: fc.nat(5),
  payer: pickOf(PAYERS),
  nonce: fc.integer({ min: 0, max: 3 }),
  isFailed: fc.boolean(),
});

type World = { transfers: AttributableTransfer[]; books: Books };

const world: fc.Arbitrary<World> = fc
  .record({
    links: fc.array(linkArbitrary, { minLength: 1, maxLength: 6 }),
    transfers: fc.array(transferArbitrary, { minLength: 1, maxLength: 8 }),
    claims: fc.array(claimArbitrary, { maxLength: 5 }),
    payments: fc.array(paymentArbitrary, { maxLength: 4 }),
  })
  .map(buildWorld);

type Given = {
  links: {
    recipient: Hex;
    amountUnits: bigint;
    createdAtMs: number;
    lifeS: number;
    cancelAfterS: number | undefined;
  }[];
  transfers: {
    from: Hex;
    to: Hex;
    amountUnits: bigint;
    isNewTransaction: boolean;
    isNewBlock: boolean;
    nonce: number | undefined;
  }[];
  claims: { link: number; transaction: number; payer: number }[];
  payments: { link: number; payer: Hex; nonce: number; isFailed: boolean }[];
};

function buildWorld(given: Given): World {
  let [transaction, timeS] = [0, 1];
  const used = new Set<string>();
  const transfers = given.transfers.map((transfer) => {
    if (transfer.isNewBlock) timeS++;
    if (transfer.isNewTransaction || transfer.isNewBlock) transaction++;
    const { from, to, amountUnits, nonce } = transfer;
    // a nonce is used once on a chain
    const key = `${from}:${nonce}`;
    const isFirst = nonce !== undefined && !used.has(key);
    used.add(key);
    const authorizationNonce = isFirst ? hex(nonce, 32) : undefined;
    return {
      txHash: hex(transaction % 16, 32),
      from,
      to,
      amountUnits,
      blockTimeMs: timeS * 1_000,
      authorizationNonce,
    };
  });
  const links = given.links.map((link, index): LinkFacts => {
    const cancelledAtMs =
      link.cancelAfterS === undefined ? undefined : link.createdAtMs + link.cancelAfterS * 1_000;
    const { recipient, amountUnits, createdAtMs } = link;
    return {
      ...{
        id: `link${index}`,
        recipient,
        amountUnits,
        createdAtMs,
        expiresAtMs: createdAtMs + link.lifeS * 1_000,
      },
      ...{ cancelledAtMs, isTaken: false, livePaymentId: undefined },
    };
  });
  return {
    transfers,
    books: { ...addPayments(links, given.payments), claims: toClaims(links, given.claims) },
  };
}

/** As the database has them: an authorization once, and one live payment a link. */
function addPayments(links: LinkFacts[], given: Given["payments"]): Pick<Books, "links" | "payments"> {
  const seen = new Set<string>();
  const payments = given.flatMap((payment, index) => {
    const link = links[payment.link % links.length];
    const key = `${payment.payer}:${payment.nonce}`;
    if (!link || seen.has(key) || (!payment.isFailed && link.livePaymentId !== undefined)) return [];
    seen.add(key);
    const id = `payment${index}`;
    if (!payment.isFailed) link.livePaymentId = id;
    const { recipient, amountUnits } = link;
    return [
      {
        id,
        linkId: link.id,
        payer: payment.payer,
        nonce: hex(payment.nonce, 32),
        recipient,
        amountUnits,
        isFailed: payment.isFailed,
      },
    ];
  });
  return { links, payments };
}

function toClaims(links: readonly LinkFacts[], given: Given["claims"]): Books["claims"] {
  return given.map((claim, index) => ({
    id: `claim${index}`,
    linkId: links[claim.link % links.length]?.id ?? "",
    txHash: hex(claim.transaction % 16, 32),
    clientAddress: PAYERS[claim.payer] ?? hex(0, 20),
  }));
}

/** What the database knows after these decisions. */
function afterwards(books: Books, answers: readonly (Attribution | undefined)[]): Books {
  const paid = new Set(answers.flatMap((answer) => (answer?.pays ? [answer.linkId] : [])));
  const settled = new Map(
    answers.flatMap((answer) =>
      answer?.settlesPayment && answer.paymentId ? [[answer.paymentId, answer.linkId]] : [],
    ),
  );
  return {
    links: books.links.map((link) => {
      const revived = [...settled].find(([, linkId]) => linkId === link.id)?.[0];
      return {
        ...link,
        isTaken: link.isTaken || paid.has(link.id),
        livePaymentId: link.livePaymentId ?? revived,
      };
    }),
    payments: books.payments.map((payment) => ({
      ...payment,
      isFailed: payment.isFailed && !settled.has(payment.id),
    })),
    claims: books.claims,
  };
}

describe("attribution", () => {
  test("is the same block by block as over a range", () => {
    fc.assert(
      fc.property(world, ({ transfers, books }) => {
        const whole = attributeTransfers(transfers, books);
        const parts: (Attribution | undefined)[] = [];
        let known = books;
        for (const timeMs of new Set(transfers.map((transfer) => transfer.blockTimeMs))) {
          const block = transfers.filter((transfer) => transfer.blockTimeMs === timeMs);
          const answers = attributeTransfers(block, known);
          parts.push(...answers);
          known = afterwards(known, answers);
        }
        expect(parts).toEqual(whole);
      }),
      { numRuns: 5_000 },
    );
  });

  test("never pays a link twice, with another amount, to another wallet, before it was made or after it was cancelled", () => {
    fc.assert(
      fc.property(world, ({ transfers, books }) => {
        const answers = attributeTransfers(transfers, books);
        const links = new Map(books.links.map((link) => [link.id, link]));
        const paid = answers.flatMap((answer) => (answer?.pays ? [answer.linkId] : []));
        expect(new Set(paid).size).toBe(paid.length);
        for (const [index, answer] of answers.entries()) {
          const [transfer, link] = [transfers[index], links.get(answer?.linkId ?? "")];
          if (!answer || !transfer || !link) continue;
          expect(transfer.to).toBe(link.recipient);
          if (!answer.pays) continue;
          expect(transfer.amountUnits).toBe(link.amountUnits);
          expect(link.cancelledAtMs).toBeUndefined();
          if (!answer.paymentId) expect(transfer.blockTimeMs).toBeGreaterThan(link.createdAtMs - 1_000);
        }
      }),
      { numRuns: 5_000 },
    );
  });

  test("a claim never takes money from the link that the only fitting transfer would pay without it", () => {
    fc.assert(
      fc.property(world, ({ transfers, books }) => {
        const [first] = transfers;
        if (!first) return;
        const [without] = attributeTransfers([first], { ...books, claims: [] });
        const [withClaims] = attributeTransfers([first], books);
        const fitting = books.links.filter(
          (link) => link.recipient === first.to && link.amountUnits === first.amountUnits,
        );
        if (without?.pays && fitting.length === 1)
          expect(withClaims).toMatchObject({ linkId: without.linkId, pays: true });
      }),
      { numRuns: 5_000 },
    );
  });
});
