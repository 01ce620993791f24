/** Who may receive a facilitated payment's success again: the conditions of its claims, each beside the request that it refuses. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  type AnswerClaim,
  type Asker,
  claimAnswer,
  isAnswerDue,
  recordCut,
  recordSent,
} from "../../db/payments/claim-success-answer.ts";
import { accepted, acceptFacilitated, type BooksLab, openBooks } from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let id: string;
let asker: Asker;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  ({ id, asker } = await settled());
});

async function settled(): Promise<{ id: string; asker: Asker }> {
  const payment = await acceptFacilitated(lab);
  await lab.sql`update payments set state = 'MINED' where id = ${payment.id}`;
  const { facilitatorUserId: userId, facilitatorKeyId: keyId } = payment;
  const digest = Buffer.alloc(32, 1);
  return { id: payment.id, asker: { userId, keyId, digest, idempotencyKey: undefined, isIdentified: false } };
}

const claim = (given: Partial<Asker> = {}, claimId = "next") =>
  lab.sql.begin((tx) => claimAnswer(tx, id, { ...asker, ...given }, claimId));
const isDue = (given: Partial<Asker> = {}) => isAnswerDue(lab.sql, id, { ...asker, ...given });

/** The asker's request was answered before, without an Idempotency-Key. */
async function answered(state: "SENDING" | "SENT" | "CUT", secondsAgo: number): Promise<void> {
  expect(await claim({}, "first")).toBe("claimed");
  await lab.sql`
    update payments
    set answer_state = ${state}, answered_at = now() - make_interval(secs => ${secondsAgo})
    where id = ${id}`;
}

async function stateOf(): Promise<string | null | undefined> {
  const [row] = await lab.sql<{ answerState: string | null }[]>`
    select answer_state from payments where id = ${id}`;
  return row?.answerState;
}

const OTHER = { digest: Buffer.alloc(32, 2) };
const SAME = {};
const IDENTIFIED = { isIdentified: true };

const AGAIN: [state: "SENDING" | "SENT" | "CUT", secondsAgo: number, Partial<Asker>, AnswerClaim][] = [
  ["CUT", 1, SAME, "claimed"],
  ["CUT", 1, OTHER, "refused"],
  ["CUT", 61, SAME, "refused"],
  ["SENDING", 1, SAME, "busy"],
  ["SENDING", 1, OTHER, "refused"],
  ["SENDING", 6, SAME, "claimed"],
  ["SENDING", 6, OTHER, "refused"],
  ["SENDING", 61, SAME, "refused"],
  ["SENT", 1, SAME, "refused"],
  ["SENT", 6, SAME, "refused"],
  ["SENT", 61, IDENTIFIED, "claimed"],
  ["SENT", 61, { ...IDENTIFIED, ...OTHER }, "refused"],
];
test.each(AGAIN)(
  "an answer that was %s %d s ago, asked for again (%p): %s",
  async (state, secondsAgo, given, expected) => {
    await answered(state, secondsAgo);
    expect(await isDue(given)).toBe(expected === "claimed");
    expect(await claim(given)).toBe(expected);
  },
);

describe("the success of a payment", () => {
  test("belongs to the API key that submitted it", async () => {
    for (const other of [{ keyId: "key_other" }, { userId: "user_other" }]) {
      expect(await isDue(other)).toBe(false);
      expect(await claim(other)).toBe("refused");
    }
    await answered("CUT", 1);
    for (const other of [{ keyId: "key_other" }, { userId: "user_other" }])
      expect(await claim(other)).toBe("refused");
  });

  test("is answered again to the same Idempotency-Key, and to no other", async () => {
    expect(await claim({ idempotencyKey: "one" })).toBe("claimed");
    expect(await claim({ idempotencyKey: "two", ...OTHER }, "other")).toBe("refused");
    expect(await claim({ idempotencyKey: "one", ...OTHER }, "again")).toBe("claimed");
  });

  test.each(["QUEUED", "SIGNED", "BROADCAST"])("is not answered while it is %s", async (state) => {
    await lab.sql`update payments set state = ${state} where id = ${id}`;
    expect(await isDue()).toBe(false);
    expect(await claim()).toBe("unsettled");
  });

  test("is answered once it is CONFIRMED as well, and never that of a link's payment", async () => {
    await lab.sql`update payments set state = 'CONFIRMED' where id = ${id}`;
    expect(await claim()).toBe("claimed");
    const linked = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    await lab.sql`update payments set state = 'MINED' where id = ${linked.id}`;
    id = linked.id;
    expect(await claim()).toBe("unsettled");
  });

  test("that was sent is not taken back, and only its own claim's closed connection cuts it", async () => {
    const other = await settled();
    await answered("SENDING", 1);
    await recordCut(lab.sql, id, "another claim");
    expect(await stateOf()).toBe("SENDING");
    await recordSent(lab.sql, id);
    await recordCut(lab.sql, id, "first");
    expect(await stateOf()).toBe("SENT");
    id = other.id;
    expect(await stateOf()).toBeNull();
  });
});
