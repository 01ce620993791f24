/** Archives of many documents: the limit counts those that are numbered for the archive, and what happened first is numbered first. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { ARCHIVE_DOCUMENTS_MAX } from "../../core/domain/numbered-document.ts";
import { findUndocumentedLinks } from "../../db/documents/month-documents.ts";
import { refundLab } from "../support/refund-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);

let world: World;
let merchant: Merchant;
const { until, paidByX402 } = refundLab(() => ({ world, sql: world.sql, merchant }));

beforeAll(async () => {
  world = await startWorld({ env: { RATE_LIMITS: "0", NODE_ENV: "test" } });
});
beforeEach(async () => {
  merchant = await signUp(world.baseUrl);
});
afterAll(() => world?.stop());

async function countOwn(): Promise<number> {
  const [row] = await world.sql<{ count: number }[]>`
    select count(*)::int as count from documents where user_id = ${merchant.userId}`;
  return row?.count ?? 0;
}

/** A paid link whose receipt is issued; when it was paid. */
async function paid(): Promise<{ linkId: string; paidAt: Date }> {
  const { linkId } = await paidByX402(1);
  const paidAt = await until(async () => {
    const [row] = await world.sql<{ happenedAt: Date }[]>`
      select happened_at from documents where link_id = ${linkId}`;
    return row?.happenedAt;
  });
  return { linkId, paidAt };
}

describe("a month's archive", () => {
  test("numbers payments without a document in the order they happened", async () => {
    const links = [(await paid()).linkId, (await paid()).linkId, (await paid()).linkId];
    const { paidAt } = await paid();
    await world.sql`delete from documents where user_id = ${merchant.userId}`;
    // the reverse of the order of their names
    const order = links.toSorted().toReversed();
    for (const [hours, linkId] of order.entries())
      await world.sql`
        update transactions
        set detected_at = ${paidAt}::timestamptz - interval '1 year' + make_interval(hours => ${hours})
        where link_id = ${linkId}`;
    const year = { from: new Date(paidAt.getTime() - 400 * 86_400_000), before: paidAt };
    const find = (limit: number) =>
      findUndocumentedLinks(world.sql, { userId: merchant.userId, ...year }, limit);
    expect(await find(2)).toEqual(order.slice(0, 2));
    expect(await find(10)).toEqual(order);
  });

  test("is refused when newly numbered payments exceed an archive's size, and no more of them are numbered", async () => {
    const { linkId, paidAt } = await paid();
    const [first] = await world.sql<{ id: string; number: number; year: number }[]>`
      select id, number, year from documents where link_id = ${linkId}`;
    const month = paidAt.toISOString().slice(0, 7);
    // with as many as an archive holds, one of them not numbered yet
    const missing = ARCHIVE_DOCUMENTS_MAX + 1 - (await countOwn());
    await world.sql`
      insert into documents (
        id, user_id, kind, year, number, link_id, network, tx_hash, log_index, block_hash, amount_units, happened_at, facts
      )
      select
        'doc_' || n, user_id, kind, year, number + 10 + n, link_id, network, decode(lpad(to_hex(n), 64, '0'), 'hex'), log_index,
        block_hash, amount_units, happened_at, facts
      from documents, generate_series(1, ${missing}::int) as n
      where id = ${first?.id ?? ""}`;
    await world.sql`delete from documents where id = ${first?.id ?? ""}`;
    expect(await countOwn()).toBe(ARCHIVE_DOCUMENTS_MAX);
    const path = "/v1/documents/archive";
    const asked = await merchant.client.post(path, { month }, { prefer: "respond-async" });
    expect(asked.status).toBe(202);
    const ended = await until(async () => {
      const { body } = await merchant.client.get(`/v1/transactions/exports/${asked.body.data.export.id}`);
      const { status, refusal } = body.data.export;
      return ["READY", "FAILED"].includes(status) ? { status, refusal } : undefined;
    });
    expect(ended).toEqual({
      status: "FAILED",
      refusal: `the month has more than ${ARCHIVE_DOCUMENTS_MAX} documents, the maximum of an archive`,
    });
    expect(await countOwn()).toBe(ARCHIVE_DOCUMENTS_MAX + 1);
    const again = await merchant.client.post(path, { month });
    expect(again.status).toBe(400);
    expect(JSON.stringify(again.body)).toContain(`has more than ${ARCHIVE_DOCUMENTS_MAX} documents`);
  });
});
