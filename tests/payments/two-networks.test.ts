/** Both networks at once, each with a node of its own: payments on both at the same time, and an unavailable node of one does not affect the other. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { NetworkId } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { assertInvariants } from "../support/invariants.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { type Service, startService } from "../support/world.ts";

type Side = { network: NetworkId; chain: TestChain; proxy: FaultProxy; merchant: SeededMerchant };
type Order = { linkId: string; body: string };

const PAYMENTS = 60;
const AMOUNT = 10_000n;
let db: TestDatabase;
let mailbox: TestMailbox;
let service: Service;
let sql: Sql;
let base: Side;
let sepolia: Side;

beforeAll(async () => {
  [db, mailbox] = await Promise.all([createTestDatabase(), startTestMailbox()]);
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  [base, sepolia] = await Promise.all([openSide("base", 8453), openSide("base-sepolia", 84_532)]);
  service = await startService({
    ...{ db, smtp: mailbox },
    chain: { ...sepolia.chain, rpcUrl: sepolia.proxy.url },
    otherChain: { ...base.chain, rpcUrl: base.proxy.url },
    env: { PAY_WAIT_MS: "2000" },
  });
}, 120_000);

afterAll(async () => {
  await sql?.end();
  await service?.stop();
  for (const side of [base, sepolia]) {
    await side?.proxy.stop();
    await side?.chain.stop();
  }
  await Promise.all([db?.drop(), mailbox?.stop()]);
});

async function openSide(network: NetworkId, chainId: number): Promise<Side> {
  const chain = await startTestChain({ chainId });
  const merchant = await seedMerchant(sql, { network });
  return { network, chain, merchant, proxy: startFaultProxy(chain.rpcUrl) };
}

async function makeOrders({ network, chain, merchant }: Side, count: number): Promise<Order[]> {
  const linkIds = await seedLinks(sql, merchant, { count, amountUnits: AMOUNT });
  const payers = linkIds.map(() => makePayer());
  const addresses = payers.map(({ address }) => address);
  await fundUsdc(chain.rpcUrl, addresses, AMOUNT);
  const terms = { to: merchant.address, amountUnits: AMOUNT, network };
  const signed = await Promise.all(payers.map((payer) => signPayment(payer, terms)));
  return linkIds.map((linkId, index) => {
    const payment = signed[index];
    if (!payment) throw new Error("an order has no payment");
    return { linkId, body: JSON.stringify(shapeA(payment, network)) };
  });
}

async function pay({ linkId, body }: Order): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${service.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

/** The same request again, until its payment has settled: one that was answered 202 may yet end, where a busy machine lets it wait for too long. */
async function payOut(orders: readonly Order[]): Promise<void> {
  const isPaid = async (order: Order) => {
    const { status, body } = await pay(order);
    return status === 200 || (status === 409 && body.error === "NONCE_USED");
  };
  await Promise.all(orders.map((order) => waitFor(`${order.linkId} to be paid`, () => isPaid(order))));
}

async function expectPaid({ network, chain, merchant }: Side): Promise<void> {
  const count = await waitFor(`all links on ${network} to be PAID`, async () => {
    const [row] = await sql<{ all: number; paid: number }[]>`
      select count(*)::int as all, count(*) filter (where status = 'PAID')::int as paid
      from payment_links
      where network = ${network}`;
    return row && row.all > 0 && row.all === row.paid && row.paid;
  });
  await waitFor(`all relays on ${network} to be mined`, async () => {
    const rows =
      await sql`select id from relays where network = ${network} and state in ('SIGNED', 'BROADCAST')`;
    return rows.length === 0;
  });
  expect(await readUsdcBalance(chain.rpcUrl, merchant.address)).toBe(AMOUNT * BigInt(count));
  await assertInvariants(sql, chain);
}

test(`behavior: ${PAYMENTS} payments on each network at the same time, with the same relayer keys`, async () => {
  const [onBase, onSepolia] = await Promise.all([makeOrders(base, PAYMENTS), makeOrders(sepolia, PAYMENTS)]);
  const mixed = onBase.flatMap((order, index) => [order, onSepolia[index] ?? order]);
  const answers = await Promise.all(mixed.map(pay));
  expect(answers.filter(({ status }) => status !== 200 && status !== 202)).toEqual([]);
  await payOut(mixed);
  for (const side of [base, sepolia]) await expectPaid(side);
}, 120_000);

test("error: NETWORK_MISMATCH for an authorization signed for the other network; both links stay payable", async () => {
  const [onBase] = await makeOrders(base, 1);
  const [onSepolia] = await makeOrders(sepolia, 1);
  if (!onBase || !onSepolia) throw new Error("no orders");
  const crossed = await pay({ linkId: onSepolia.linkId, body: onBase.body });
  expect(crossed).toMatchObject({ status: 422, body: { error: "NETWORK_MISMATCH" } });
  await payOut([onBase, onSepolia]);
}, 120_000);

test("behavior: a node unavailable in between does not affect the other network; afterwards everything is paid", async () => {
  const [onBase, onSepolia] = await Promise.all([makeOrders(base, PAYMENTS), makeOrders(sepolia, PAYMENTS)]);
  const relayedBefore = await countRelays("base");
  base.proxy.fault = () => ({ kind: "hang" });
  const waiting = onBase.slice(0, 10).map(pay);
  // the other network's are accepted and paid while the first's still wait
  const answers = await Promise.all(onSepolia.map(pay));
  expect(answers.filter(({ status }) => status !== 200 && status !== 202)).toEqual([]);
  expect(await countRelays("base")).toBe(relayedBefore);
  await payOut(onSepolia);
  await expectPaid(sepolia);
  base.proxy.fault = () => undefined;
  const early = await Promise.all(waiting);
  // accepted, and either still under way or let go with nothing sent
  for (const { status, body } of early) {
    if (status === 500) expect(body).toMatchObject({ error: "INTERNAL_ERROR", retryable: true });
    else expect([200, 202]).toContain(status);
  }
  await payOut(onBase);
  await expectPaid(base);
}, 120_000);

async function countRelays(network: NetworkId): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from relays where network = ${network}`;
  return row?.count ?? 0;
}
