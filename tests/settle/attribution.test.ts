import { describe, expect, test } from "bun:test";
import { randomInt } from "node:crypto";
import fc from "fast-check";
import { attributeTransfers, isTimely, type Verdict } from "../../core/domain/attribute-transfers.ts";
import type { AttributableTransfer, LedgerSnapshot, LinkFacts } from "../../core/domain/ledger-snapshot.ts";
import { isInferred } from "../../core/domain/settled-by.ts";
import { type AttributionWorld, attributionWorlds, hex, MERCHANTS, PAYERS } from "./attribution-worlds.ts";

/** A run of the suite draws new worlds each time, the same for each rule: to make and judge one takes longer than to ask a rule. */
const RUNS = { numRuns: 1_500, seed: randomInt(2 ** 31) };
type Judged = { transfer: AttributableTransfer; verdict: Verdict };

let drawn: { world: AttributionWorld; judged: Judged[] }[] | undefined;

function drawWorlds(): NonNullable<typeof drawn> {
  const worlds: AttributionWorld[] = [];
  const keep = fc.property(attributionWorlds, (world) => void worlds.push(world));
  fc.assert(keep, RUNS);
  return worlds.map((world) => ({ world, judged: judge(world) }));
}

function holds(rule: (world: AttributionWorld, judged: Judged[]) => void): void {
  drawn ??= drawWorlds();
  try {
    for (const { world, judged } of drawn) rule(world, judged);
  } catch (error) {
    // the same worlds again, for the smallest one that breaks the rule
    fc.assert(
      fc.property(attributionWorlds, (world) => rule(world, judge(world))),
      RUNS,
    );
    throw error;
  }
}

function judge({ transfers, ledger }: AttributionWorld): Judged[] {
  const verdicts = attributeTransfers(transfers, ledger);
  expect(verdicts).toHaveLength(transfers.length);
  return transfers.map((transfer, index) => ({ transfer, verdict: verdicts[index] as Verdict }));
}

/** The database's state after these decisions. */
function afterwards(ledger: LedgerSnapshot, verdicts: readonly Verdict[]): LedgerSnapshot {
  const made = verdicts.flatMap(({ attribution }) => attribution ?? []);
  const paid = new Set(made.filter(({ pays }) => pays).map(({ linkId }) => linkId));
  const matched = new Set(made.map(({ claimId }) => claimId));
  const settled = new Map(
    made.flatMap(({ settlesPayment, paymentId, linkId }) =>
      settlesPayment && paymentId ? [[paymentId, linkId] as const] : [],
    ),
  );
  return {
    ...ledger,
    links: ledger.links.map((link) => ({
      ...link,
      isTaken: link.isTaken || paid.has(link.id),
      livePaymentId: link.livePaymentId ?? [...settled].find(([, linkId]) => linkId === link.id)?.[0],
    })),
    payments: ledger.payments.map((one) => ({ ...one, isFailed: one.isFailed && !settled.has(one.id) })),
    claims: ledger.claims.filter(({ id }) => !matched.has(id)),
  };
}

function linkOf(ledger: LedgerSnapshot, id: string | undefined): LinkFacts {
  const link = ledger.links.find((one) => one.id === id);
  if (!link) throw new Error(`no link ${id}`);
  return link;
}

const isExact = (link: LinkFacts, { amountUnits }: AttributableTransfer) =>
  [link.amountUnits, link.payAmountUnits].includes(amountUnits);

const wasMadeBefore = (link: LinkFacts, { blockNumber, blockTimeMs }: AttributableTransfer) =>
  link.createdBlock === undefined ? link.createdAtMs < blockTimeMs + 1_000 : link.createdBlock < blockNumber;

/** The link named by the merchant, by an authorization accepted in time, or by a tag, in this order. */
function namedBy(ledger: LedgerSnapshot, transfer: AttributableTransfer): string | undefined {
  const { to, from, txHash, logIndex, authorizationNonce: nonce, blockNumber, blockTimeMs } = transfer;
  const own = ledger.links.filter(({ recipient }) => recipient === to);
  const assignments = ledger.assignments.filter((one) => one.txHash === txHash && one.logIndex === logIndex);
  const assigned = own.find(({ id }) => id === assignments.at(-1)?.linkId);
  if (assigned) return assigned.id;
  const payment = ledger.payments.find(
    (one) =>
      one.payer === from &&
      one.nonce === nonce &&
      one.recipient === to &&
      one.amountUnits === transfer.amountUnits &&
      (one.relayHashes.includes(txHash) ||
        ((one.acceptedBlock ?? 0) < blockNumber && one.acceptedAtMs < blockTimeMs)),
  );
  if (payment) return payment.linkId;
  const tags = [nonce?.slice(0, 34), transfer.tag];
  return tags.flatMap((tag) => own.find((link) => tag !== undefined && link.tag === tag) ?? [])[0]?.id;
}

describe("attribution of random transfers to random links", () => {
  test("is the same block by block as over a range", () => {
    holds(({ transfers, ledger }, judged) => {
      const parts: Verdict[] = [];
      let known = ledger;
      for (const number of new Set(transfers.map(({ blockNumber }) => blockNumber))) {
        const block = transfers.filter(({ blockNumber }) => blockNumber === number);
        const verdicts = attributeTransfers(block, known);
        parts.push(...verdicts);
        known = afterwards(known, verdicts);
      }
      expect(parts).toEqual(judged.map(({ verdict }) => verdict));
    });
  });

  test("never pays a link twice, nor one cancelled or of another wallet, nor with an amount neither requested nor accepted", () => {
    holds(({ ledger }, judged) => {
      const paid = judged.flatMap(({ verdict: { attribution } }) =>
        attribution?.pays ? attribution.linkId : [],
      );
      expect(new Set(paid).size).toBe(paid.length);
      for (const { transfer, verdict } of judged) {
        if (!verdict.attribution) continue;
        const { linkId, pays, settledBy } = verdict.attribution;
        const link = linkOf(ledger, linkId);
        expect(transfer.to).toBe(link.recipient);
        if (!pays) continue;
        expect(link.cancelledAtMs).toBeUndefined();
        const isAccepted =
          settledBy === "merchant" &&
          ledger.assignments.some(
            (one) => one.linkId === linkId && one.logIndex === transfer.logIndex && one.accept,
          );
        expect(isExact(link, transfer) || isAccepted).toBe(true);
      }
    });
  });

  test("evidence for a link attributes its transfer to that link, and pays no other", () => {
    let evident = 0;
    holds(({ ledger }, judged) => {
      for (const { transfer, verdict } of judged) {
        const named = namedBy(ledger, transfer);
        const settledBy = verdict.attribution?.settledBy;
        if (named) {
          evident += 1;
          expect(verdict.attribution?.linkId).toBe(named);
        }
        expect(named !== undefined).toBe(["merchant", "authorization", "tag"].includes(settledBy ?? ""));
      }
    });
    expect(evident).toBeGreaterThan(0);
  });

  test("a proof decides only for its signer's transfer, and for every link created before it", () => {
    holds(({ ledger }, judged) => {
      for (const { transfer, verdict } of judged) {
        const { attribution } = verdict;
        const proofs = ledger.claims.filter(
          (claim) =>
            claim.isProven &&
            claim.txHash === transfer.txHash &&
            claim.clientAddress === transfer.from &&
            linkOf(ledger, claim.linkId).recipient === transfer.to &&
            wasMadeBefore(linkOf(ledger, claim.linkId), transfer),
        );
        if (attribution?.settledBy === "proof")
          expect(proofs.map(({ id }) => id)).toContain(attribution.claimId ?? "");
        const isSingle = judged.filter((other) => other.transfer.txHash === transfer.txHash).length === 1;
        // of several the first whose link asks for this amount
        const fitting = proofs.find(({ linkId }) => isExact(linkOf(ledger, linkId), transfer)) ?? proofs[0];
        if (isSingle && fitting && !namedBy(ledger, transfer))
          expect(attribution).toMatchObject({ settledBy: "proof", linkId: fitting.linkId });
      }
    });
  });

  test("a claim settles only what its own address sent, in the transaction it names, for its own link, once", () => {
    holds(({ ledger }, judged) => {
      const used = judged.flatMap(({ verdict }) => verdict.attribution?.claimId ?? []);
      expect(new Set(used).size).toBe(used.length);
      for (const { transfer, verdict } of judged) {
        const claim = ledger.claims.find(({ id }) => id === verdict.attribution?.claimId);
        expect(claim?.id).toBe(verdict.attribution?.claimId);
        if (!claim) continue;
        expect(claim).toMatchObject({ txHash: transfer.txHash, clientAddress: transfer.from });
        expect(claim.linkId).toBe(verdict.attribution?.linkId ?? "");
      }
    });
  });

  test("a late or contested claim without a proof decides nothing", () => {
    holds(({ transfers, ledger }, judged) => {
      const claims = ledger.claims.filter(({ isProven, isEarly }) => isProven || isEarly);
      const without = attributeTransfers(transfers, { ...ledger, claims });
      const decided = ({ attribution, candidates }: Verdict) => ({
        ...{ linkId: attribution?.linkId, pays: attribution?.pays, settledBy: attribution?.settledBy },
        ...{ paymentId: attribution?.paymentId, candidates },
      });
      expect(judged.map(({ verdict }) => decided(verdict))).toEqual(without.map(decided));
    });
  });

  test("an authorization submitted too late names no link", () => {
    holds(({ transfers, ledger }, judged) => {
      const isLate = ({
        acceptedBlock = 0,
        acceptedAtMs,
        relayHashes,
        payer,
        nonce,
      }: LedgerSnapshot["payments"][number]) =>
        transfers.some(
          ({ from, authorizationNonce, txHash, blockNumber, blockTimeMs }) =>
            from === payer &&
            authorizationNonce === nonce &&
            !relayHashes.includes(txHash) &&
            (acceptedBlock >= blockNumber || acceptedAtMs >= blockTimeMs),
        );
      const payments = ledger.payments.filter((payment) => !isLate(payment));
      const without = attributeTransfers(transfers, { ...ledger, payments });
      const linksOf = (verdicts: readonly Verdict[]) =>
        verdicts.map(({ attribution }) => attribution?.linkId);
      expect(linksOf(judged.map(({ verdict }) => verdict))).toEqual(linksOf(without));
    });
  });

  test("a payment is settled by its own transfer; a failed one only if that pays and no other payment holds the link", () => {
    let revived = 0;
    holds(({ ledger }, judged) => {
      for (const { transfer, verdict } of judged) {
        const { paymentId, linkId, pays, settlesPayment, settledBy } = verdict.attribution ?? {};
        const payment = ledger.payments.find(({ id }) => id === paymentId);
        const live = ledger.links.find(({ id }) => id === linkId)?.livePaymentId;
        if (settledBy === "authorization" && live !== undefined && live !== paymentId)
          expect(pays).toBe(false);
        expect(payment?.id).toBe(paymentId);
        if (!payment) continue;
        expect(payment).toMatchObject({ linkId, payer: transfer.from, nonce: transfer.authorizationNonce });
        expect(settlesPayment).toBe(pays === true || !payment.isFailed);
        if (!settlesPayment || !payment.isFailed) continue;
        revived += 1;
        expect([undefined, payment.id]).toContain(live);
      }
    });
    expect(revived).toBeGreaterThan(0);
  });

  test("inference pays the one link that fits, or that was paid before a reorganisation; several are candidates", () => {
    holds(({ ledger }, judged) => {
      const taken = new Set<string>();
      const hashes = new Set(judged.map(({ transfer }) => transfer.txHash));
      for (const txHash of hashes) {
        const own = judged.filter(({ transfer }) => transfer.txHash === txHash);
        const isEvident = ({ verdict: { attribution } }: Judged) =>
          attribution !== undefined && !isInferred(attribution.settledBy);
        for (const { verdict } of own.filter(isEvident))
          if (verdict.attribution?.pays) taken.add(verdict.attribution.linkId);
        for (const one of own.filter((judgedOne) => !isEvident(judgedOne))) {
          expectInference(ledger, one, taken);
          if (one.verdict.attribution) taken.add(one.verdict.attribution.linkId);
        }
      }
    });
  });

  function expectInference(
    ledger: LedgerSnapshot,
    { transfer, verdict }: Judged,
    taken: ReadonlySet<string>,
  ) {
    if (transfer.isRelayed) return void expect(verdict).toEqual({ candidates: [] });
    const fitting = ledger.links.filter(
      (link) =>
        link.recipient === transfer.to &&
        isExact(link, transfer) &&
        wasMadeBefore(link, transfer) &&
        !taken.has(link.id),
    );
    const open = fitting.filter(
      ({ expiresAtMs, cancelledAtMs = Number.POSITIVE_INFINITY }) =>
        transfer.blockTimeMs <= expiresAtMs && transfer.blockTimeMs < cancelledAtMs,
    );
    const over = fitting.filter(
      ({ expiresAtMs, cancelledAtMs }) => transfer.blockTimeMs > expiresAtMs && cancelledAtMs === undefined,
    );
    const candidates = open.length > 0 ? open : over;
    const isFreed = ledger.assignments.some(
      ({ txHash, logIndex }) => txHash === transfer.txHash && logIndex === transfer.logIndex,
    );
    const [only] = candidates;
    const { attribution } = verdict;
    const first = ledger.firstVerdicts.find(
      ({ txHash, logIndex }) => txHash === transfer.txHash && logIndex === transfer.logIndex,
    );
    const paidBefore = ledger.links.find(
      (link) =>
        link.id === first?.linkId &&
        first.settledBy !== "tag" &&
        link.recipient === transfer.to &&
        isExact(link, transfer) &&
        !taken.has(link.id) &&
        link.cancelledAtMs === undefined,
    );
    if (first && paidBefore && !isFreed) {
      const { settledBy } = first;
      return void expect(attribution).toMatchObject({ linkId: paidBefore.id, pays: true, settledBy });
    }
    if (first && attribution) expect(attribution.settledBy).toBe("early_claim");
    if (!attribution) {
      expect(verdict.candidates).toEqual(candidates.map(({ id }) => id));
      const isPayable = candidates.length === 1 && only?.cancelledAtMs === undefined && !isFreed;
      const isMatched = only?.matchByAmount === true || only?.payAmountUnits === transfer.amountUnits;
      expect(isPayable && isMatched && !first).toBe(false);
      return;
    }
    expect(isFreed).toBe(false);
    expect(attribution.pays).toBe(true);
    expect(candidates.map(({ id }) => id)).toContain(attribution.linkId);
    if (attribution.settledBy === "early_claim") {
      const claim = ledger.claims.find(({ id }) => id === attribution.claimId);
      expect(claim?.isEarly).toBe(true);
      expect(linkOf(ledger, attribution.linkId).trustsEarlyClaims).toBe(true);
      return;
    }
    expect(candidates).toHaveLength(1);
    expect(attribution.settledBy).toBe(
      only?.payAmountUnits === transfer.amountUnits ? "pay_amount" : "amount",
    );
    if (attribution.settledBy === "amount") expect(only?.matchByAmount).toBe(true);
  }
});

describe("the address of a claim", () => {
  const [recipient] = MERCHANTS;
  const [sender, stranger] = PAYERS;
  const transfer: AttributableTransfer = {
    ...{ txHash: hex(7, 32), logIndex: 0, from: sender, to: recipient, amountUnits: 5n },
    ...{ blockNumber: 101, blockTimeMs: 10_000, authorizationNonce: undefined },
  };
  const link = (id: string): LinkFacts => ({
    ...{ id, recipient, tag: undefined, amountUnits: 5n, payAmountUnits: undefined },
    ...{ createdAtMs: 0, createdBlock: 100, expiresAtMs: 20_000, cancelledAtMs: undefined },
    ...{ isTaken: false, livePaymentId: undefined, matchByAmount: true, trustsEarlyClaims: true },
  });
  const judgeClaim = (clientAddress: typeof sender, isProven: boolean) =>
    attributeTransfers([transfer], {
      ...{ links: [link("first"), link("second")], payments: [], assignments: [], firstVerdicts: [] },
      claims: [
        { id: "claim", linkId: "second", txHash: transfer.txHash, clientAddress, isProven, isEarly: true },
      ],
    })[0];

  for (const [settledBy, isProven] of [
    ["early_claim", false],
    ["proof", true],
  ] as const) {
    test(`${settledBy}: that of the sender decides between two links`, () => {
      const attribution = { linkId: "second", pays: true, settledBy, claimId: "claim" };
      expect(judgeClaim(sender, isProven)).toEqual({ attribution, candidates: [] });
    });

    test(`${settledBy}: another address does not`, () => {
      expect(judgeClaim(stranger, isProven)).toEqual({ candidates: ["first", "second"] });
    });
  }
});

describe("an authorization executed by a third party counts as accepted before its block", () => {
  const transfer = { txHash: hex(7, 32), blockNumber: 101, blockTimeMs: 10_000 };
  const accept = (acceptedAtMs: number, acceptedBlock: number | undefined) =>
    isTimely(
      {
        ...{ id: "payment", linkId: "link", payer: hex(1, 20), nonce: hex(2, 32), recipient: hex(3, 20) },
        ...{
          amountUnits: 5n,
          isFailed: false,
          acceptedAtMs,
          acceptedBlock,
          relayHashes: [],
          wasSettled: false,
          wasPublic: false,
        },
      },
      transfer,
    );

  test("in the last millisecond before the block's second, when its parent was the newest block read", () => {
    expect(accept(9_999, 100)).toBe(true);
  });

  test("not within that second, when the block may have been public, however far the ledger had read", () => {
    expect([accept(10_000, 100), accept(10_000, 90), accept(10_000, undefined)]).toEqual([
      false,
      false,
      false,
    ]);
  });

  test("not if the ledger had read the block, whatever the clocks show", () => {
    expect(accept(9_000, 101)).toBe(false);
  });
});
