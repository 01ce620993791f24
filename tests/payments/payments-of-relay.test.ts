/** Which payments a pending transaction carries, and which it must not carry any more. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { findReleasedPayments, findSignedPayments } from "../../db/payments/payments-of-relay.ts";
import { accepted, type BooksLab, openBooks } from "../support/ledger-lab.ts";
import { seedLinks } from "../support/seed.ts";
import { relayOf } from "../support/signed-relay.ts";

let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});

afterAll(() => lab?.stop());

const release = ({ id }: NewPayment) =>
  lab.sql`update payments set state = 'QUEUED', reason = null, relay_id = null where id = ${id}`;

describe("the payments that a transaction carries", () => {
  const setState = ({ id }: NewPayment, state: string) =>
    lab.sql`
      update payments set state = ${state}, reason = ${state === "FAILED" ? "NONCE_USED" : null} where id = ${id}`;
  let all: NewPayment[];
  let relayId: bigint;

  beforeEach(async () => {
    all = [];
    for (const id of await seedLinks(lab.sql, lab.merchant, { count: 5 })) all.push(await accepted(lab, id));
    ({ relayId } = await relayOf(lab.sql, ...all));
  });

  test("are those SIGNED for it, with the tag of their link, in the order of ids", async () => {
    const [signed, sent, failed, again, last] = all as [
      NewPayment,
      NewPayment,
      NewPayment,
      NewPayment,
      NewPayment,
    ];
    await setState(sent, "BROADCAST");
    await setState(failed, "FAILED");
    await release(again);
    const other = await relayOf(lab.sql, again);
    const expected = [signed, last].sort((a, b) => (a.id < b.id ? -1 : 1));
    const found = await findSignedPayments(lab.sql, relayId);
    expect(found.map(({ id, linkTag: tag }) => ({ id, tag }))).toEqual(
      expected.map(({ id, linkId: link }) => ({ id, tag: linkTag(link) })),
    );
    expect((await findSignedPayments(lab.sql, other.relayId)).map(({ id }) => id)).toEqual([again.id]);
  });

  test("have been released when they are queued, failed, or signed for another", async () => {
    const [kept, queued, failed, again, idle] = all as [
      NewPayment,
      NewPayment,
      NewPayment,
      NewPayment,
      NewPayment,
    ];
    await setState(queued, "QUEUED");
    await setState(failed, "FAILED");
    await Promise.all([release(again), release(idle)]);
    const other = await relayOf(lab.sql, again);
    const expected = [queued, failed, again, idle].map(({ id }) => id).sort();
    expect(await findReleasedPayments(lab.sql, relayId)).toEqual(expected);
    expect(await findReleasedPayments(lab.sql, other.relayId)).toEqual([]);
    for (const state of ["SIGNED", "BROADCAST", "MINED", "CONFIRMED"]) {
      await setState(kept, state);
      expect(await findReleasedPayments(lab.sql, relayId)).toEqual(expected);
    }
  });
});
