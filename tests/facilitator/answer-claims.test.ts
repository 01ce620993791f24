/** Concurrent claims on the answer of a settled payment, one statement at a time. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { reportSuccessOnce } from "../../api/facilitator/report-success-once.ts";
import { openPaymentReader } from "../../api/x402/pay-tools.ts";
import { openLog } from "../../core/runtime/log.ts";
import {
  type Asker,
  claimAnswer,
  isAnswerDue,
  recordCut,
  recordSent,
} from "../../db/payments/claim-success-answer.ts";
import { openPauses } from "../support/poll.ts";
import { type FacilitatorWorld, inVersion2, purchase, startFacilitatorWorld } from "./world.ts";

let lab: FacilitatorWorld;

beforeAll(async () => {
  lab = await startFacilitatorWorld();
}, 120_000);

afterAll(() => lab?.stop());

/** A settled payment whose success was not reported yet, and the caller it belongs to. */
async function settledPayment(): Promise<{ id: string; asker: Asker }> {
  const bought = await purchase(lab);
  const { payload, requirements } = inVersion2(bought);
  expect(await lab.v2.settle(payload, requirements)).toMatchObject({ success: true });
  const [row] = await lab.sql<{ id: string; userId: string; keyId: string }[]>`
    select id, facilitator_user_id as user_id, facilitator_key_id as key_id
    from payments
    where payer = ${bought.payer.address}`;
  if (!row) throw new Error("there is no payment");
  await waitForState(row.id, "SENT");
  await lab.sql`
    update payments
    set told_to = null, answer_state = null, answer_claim = null, answer_digest = null, answered_at = null
    where id = ${row.id}`;
  const digest = Buffer.alloc(32, 1);
  const { id, userId, keyId } = row;
  return { id, asker: { userId, keyId, digest, idempotencyKey: undefined, isIdentified: false } };
}

async function stateOf(id: string): Promise<string | null | undefined> {
  const [row] = await lab.sql<{ answerState: string | null }[]>`
    select answer_state from payments where id = ${id}`;
  return row?.answerState;
}

async function waitForState(id: string, state: string): Promise<void> {
  const deadline = Date.now() + 45_000;
  const pause = openPauses(5);
  while ((await stateOf(id)) !== state) {
    if (Date.now() > deadline) throw new Error(`${id} did not become ${state}`);
    await pause();
  }
}

const expireLease = (id: string) => lab.sql`
  update payments set answered_at = answered_at - interval '6 seconds' where id = ${id}`;

describe("claims", () => {
  test("of two claims one is granted; the other is busy until the answer was sent, and then refused", async () => {
    const { id, asker } = await settledPayment();
    expect(await claimAnswer(lab.sql, id, asker, "a")).toBe("claimed");
    expect(await claimAnswer(lab.sql, id, asker, "b")).toBe("busy");
    expect(await isAnswerDue(lab.sql, id, asker)).toBe(false);
    await recordSent(lab.sql, id);
    expect(await claimAnswer(lab.sql, id, asker, "b")).toBe("refused");
  });

  test("the same claim is granted again, as after a commit whose answer was lost", async () => {
    const { id, asker } = await settledPayment();
    expect(await claimAnswer(lab.sql, id, asker, "a")).toBe("claimed");
    expect(await claimAnswer(lab.sql, id, asker, "a")).toBe("claimed");
  });

  test("a claim that was taken over can neither be claimed again nor released", async () => {
    const { id, asker } = await settledPayment();
    await claimAnswer(lab.sql, id, asker, "slow");
    await expireLease(id);
    expect(await claimAnswer(lab.sql, id, asker, "next")).toBe("claimed");
    expect(await claimAnswer(lab.sql, id, asker, "slow")).toBe("busy");
    await recordCut(lab.sql, id, "slow");
    expect(await stateOf(id)).toBe("SENDING");
    await recordCut(lab.sql, id, "next");
    expect(await stateOf(id)).toBe("CUT");
  });

  test("an answer that was sent stays sent, even when it is repeated and its connection closes", async () => {
    const { id, asker } = await settledPayment();
    const keyed = { ...asker, idempotencyKey: "order 1" };
    expect(await claimAnswer(lab.sql, id, keyed, "a")).toBe("claimed");
    await recordSent(lab.sql, id);
    expect(await claimAnswer(lab.sql, id, keyed, "b")).toBe("claimed");
    await recordCut(lab.sql, id, "b");
    expect(await stateOf(id)).toBe("SENT");
    expect(await claimAnswer(lab.sql, id, asker, "c")).toBe("refused");
    expect(await claimAnswer(lab.sql, id, keyed, "d")).toBe("claimed");
  });

  test("a payment that is no longer settled has no answer", async () => {
    const { id, asker } = await settledPayment();
    await lab.sql`update payments set state = 'SIGNED', block_number = null where id = ${id}`;
    expect(await claimAnswer(lab.sql, id, asker, "a")).toBe("unsettled");
  });

  test("a payment answered by a version without key and state is not answered again", async () => {
    const { id, asker } = await settledPayment();
    await lab.sql`update payments set told_to = 'somebody', facilitator_key_id = null where id = ${id}`;
    expect(await claimAnswer(lab.sql, id, asker, "a")).toBe("refused");
  });
});

describe("reportSuccessOnce", () => {
  const answer = async (id: string, asker: Asker, connection: AbortSignal) => {
    const log = openLog("test", "silent");
    const readPayment = openPaymentReader(lab.sql);
    const tools = { sql: lab.sql, log, readPayment, config: { payWaitMs: 2_000 } };
    return reportSuccessOnce(tools, { paymentId: id, asker, connection });
  };

  test("behavior: a connection that is already closed is not answered, and the claim is released", async () => {
    const { id, asker } = await settledPayment();
    expect(await answer(id, asker, AbortSignal.abort())).toBe("unknown");
    expect(await stateOf(id)).toBe("CUT");
    expect(await answer(id, asker, new AbortController().signal)).toBe("ours");
    await waitForState(id, "SENT");
    expect(await answer(id, asker, new AbortController().signal)).toBe("refused");
  });
});
