/** Relayer nonces used by external transactions, and nonce gaps: payments are relayed all the same, once. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import {
  countTransfers,
  type Lab,
  newOrder,
  pay,
  paymentOf,
  payWithRetries,
  relaysOf,
  spendNonces,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";

const LOST_AFTER_POLLS = 8;
/** More than make a relay LOST. */
const POLLS = 10;
/** More than all tests here spend. */
const FEES_MAX_WEI = (10n ** 18n).toString();
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { RELAY_DAILY_FEE_MAX_WEI: FEES_MAX_WEI } });
}, 120_000);

afterEach(() => lab.service.startMissing());
afterAll(() => lab?.stop());

describe("a relayer's nonces", () => {
  test("behavior: three payments use three consecutive nonces", async () => {
    for (let index = 0; index < 3; index++) {
      expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
    }
    const nonces = (await relaysOf(lab)).map((relay) => relay.nonce);
    expect(nonces).toEqual([0n, 1n, 2n].map((step) => (nonces[0] ?? 0n) + step));
  }, 120_000);

  test("behavior: after an external transaction used ten nonces, the relay is LOST and its payment relayed once", async () => {
    await spendNonces(lab, 10);
    const order = await newOrder(lab);
    await pay(lab, order);
    await waitForLink(lab, order.linkId, "PAID");
    expect(await countTransfers(lab, order.linkId)).toBe(1);
    const lost = (await relaysOf(lab)).filter((relay) => relay.state === "LOST");
    expect(lost).toHaveLength(1);
    // until then the node may just not have its receipt yet
    const [counted] = await lab.sql<{ misses: number }[]>`select misses from relays where state = 'LOST'`;
    expect(counted?.misses).toBeGreaterThanOrEqual(LOST_AFTER_POLLS);
    const [chainNonce, [lane]] = await Promise.all([
      lab.rpc("eth_getTransactionCount", [lab.relayer, "latest"]),
      lab.sql<{ nextNonce: bigint }[]>`select next_nonce from relayers where address = ${lab.relayer}`,
    ]);
    expect(lane?.nextNonce).toBe(BigInt(String(chainNonce)));
  }, 120_000);

  test("behavior: marking a relay LOST locks its lane before its budgets, as signing does, without a deadlock", async () => {
    await spendNonces(lab, 10);
    const order = await newOrder(lab);
    const paying = pay(lab, order);
    await waitFor("a signed payment", async () => (await paymentOf(lab, order.linkId))?.state === "SIGNED");
    await lab.sql.begin(async (tx) => {
      await tx`select from relayers where address = ${lab.relayer} for update`;
      await waitFor("the worker to wait for the lane", async () => {
        const blocked = await lab.sql`
          select from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query ilike '%insert into relayers%'`;
        return blocked.length > 0;
      });
      const budgets = await tx`select from relay_budgets for update nowait`;
      expect(budgets.length).toBeGreaterThan(0);
    });
    await paying;
    await waitForLink(lab, order.linkId, "PAID");
  }, 120_000);

  test("behavior: while the ledger is behind, a relay without receipts is not LOST: it was mined, and is not sent again", async () => {
    const before = await relaysOf(lab);
    await lab.service.kill("indexer");
    const isForReceipts = ({ method }: { method: string }) => method === "eth_getTransactionReceipt";
    lab.proxy.fault = (calls) =>
      calls.every(isForReceipts) ? { kind: "reply", reply: () => null } : undefined;
    const order = await newOrder(lab);
    const paying = pay(lab, order);
    await waitFor("enough polls to call it lost", async () => {
      const [row] = await lab.sql<
        { most: number }[]
      >`select coalesce(max(misses), 0)::int as most from relays`;
      return (row?.most ?? 0) > POLLS;
    });
    lab.proxy.fault = () => undefined;
    await lab.service.start("indexer");
    await waitForLink(lab, order.linkId, "PAID");
    expect([200, 202]).toContain((await paying).status);
    const relays = (await relaysOf(lab)).slice(before.length);
    expect(relays.map(({ state }) => state)).not.toContain("LOST");
    expect(relays).toHaveLength(1);
  }, 120_000);

  test("behavior: a nonce gap is filled with no-ops, and the payment behind it is mined", async () => {
    await lab.sql`update relayers set next_nonce = next_nonce + 3 where address = ${lab.relayer}`;
    const order = await newOrder(lab);
    await pay(lab, order);
    await waitForLink(lab, order.linkId, "PAID");
    const noops = await waitFor("the gap to be filled", async () => {
      const rows = (await relaysOf(lab)).filter((relay) => relay.kind === "NOOP");
      return rows.length === 3 && rows.every((relay) => relay.succeeded) && rows;
    });
    expect(noops.map((relay) => relay.gasUsed)).toEqual([21_000n, 21_000n, 21_000n]);
    expect(await countTransfers(lab, order.linkId)).toBe(1);
  }, 120_000);

  test("behavior: a nonce gap is filled even with an exhausted fee budget, so that the payment behind it does not expire", async () => {
    // in the transaction that fills the gap: the payment behind it was signed within the budget
    await lab.sql.unsafe(`
      create function exhaust_fees() returns trigger language plpgsql as $$
      begin
        update relay_budgets set used = ${FEES_MAX_WEI} where scope = 'FEES';
        return new;
      end $$;
      create trigger exhaust_fees before insert on relays
        for each row when (new.kind = 'NOOP') execute function exhaust_fees();`);
    await lab.sql`update relayers set next_nonce = next_nonce + 1 where address = ${lab.relayer}`;
    const order = await newOrder(lab);
    await pay(lab, order);
    await waitForLink(lab, order.linkId, "PAID");
    expect(await countTransfers(lab, order.linkId)).toBe(1);
    const [budget] = await lab.sql<{ isOver: boolean }[]>`
      select used + reserved > ${FEES_MAX_WEI}::numeric as is_over from relay_budgets where scope = 'FEES'`;
    expect(budget?.isOver).toBe(true);
  }, 120_000);
});
