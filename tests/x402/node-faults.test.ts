/** A node that reports sends wrongly: no payment is lost, none is wrongly FAILED. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { keccak256 } from "viem";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { type Fault, type FaultProxy, type ProxiedCall, startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { roundsOf } from "../support/depth.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type Service, startService } from "../support/world.ts";

const PAYMENTS = roundsOf({ few: 50, many: 100 });
const CONCURRENCY = 25;
const AMOUNT = 10_000n;
const SETTLE_TIMEOUT_MS = 60_000;
const FAULT_SHARE = 0.1;

let db: TestDatabase;
let chain: TestChain;
let mailbox: TestMailbox;
let proxy: FaultProxy;
let service: Service;
let sql: Sql;

beforeAll(async () => {
  [db, chain, mailbox] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  proxy = startFaultProxy(chain.rpcUrl);
  service = await startService({
    ...{ db, chain: { ...chain, rpcUrl: proxy.url }, smtp: mailbox },
    env: { RELAY_BATCH_MAX: "4" },
  });
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
}, 120_000);

afterAll(async () => {
  await sql?.end();
  await service?.stop();
  await proxy?.stop();
  await Promise.all([db?.drop(), chain?.stop(), mailbox?.stop()]);
});

const isSend = (calls: readonly ProxiedCall[]) =>
  calls.some((call) => call.method === "eth_sendRawTransaction");

/** Each draws whether this request fails, and how. */
const presets: Record<string, (random: () => number) => FaultProxy["fault"]> = {
  "one in ten sends fails": (random) => (calls) =>
    isSend(calls) && random() < FAULT_SHARE ? { kind: "status", status: 503 } : undefined,
  "one in ten sends is answered but not forwarded": (random) => (calls) =>
    isSend(calls) && random() < FAULT_SHARE
      ? { kind: "reply", reply: (call) => keccak256(call.params[0] as Hex) }
      : undefined,
  "one in ten sends is forwarded but reported failed": (random) => (calls) =>
    isSend(calls) && random() < FAULT_SHARE ? { kind: "edit", edit: reportFailed } : undefined,
  "a node that lags: receipts late, nonces old, one request in ten lost": (random) => (calls) => {
    const [call] = calls;
    if (call?.method === "eth_getTransactionReceipt" && random() < 0.5)
      return { kind: "reply", reply: () => null };
    return random() < FAULT_SHARE / 2 ? { kind: "status", status: 502 } : undefined;
  },
};

function reportFailed(answer: unknown): unknown {
  const fail = ({ id }: { id: number }) => ({
    jsonrpc: "2.0",
    id,
    error: { code: -32603, message: "internal error" },
  });
  return Array.isArray(answer) ? answer.map(fail) : fail(answer as { id: number });
}

async function payAll(merchant: SeededMerchant): Promise<{ linkIds: string[]; statuses: number[] }> {
  const linkIds = await seedLinks(sql, merchant, { count: PAYMENTS, amountUnits: AMOUNT });
  const payers = linkIds.map(() => makePayer());
  const addresses = payers.map((payer) => payer.address);
  await fundUsdc(chain.rpcUrl, addresses, AMOUNT);
  const statuses: number[] = [];
  let next = 0;
  const run = async () => {
    for (let index = next++; index < linkIds.length; index = next++) {
      const payer = payers[index];
      if (!payer) continue;
      const validBefore = Math.floor(Date.now() / 1000) + 3_600;
      const payment = await signPayment(payer, { to: merchant.address, amountUnits: AMOUNT, validBefore });
      const response = await fetch(`${service.baseUrl}/v1/x402/${linkIds[index]}/pay`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(shapeA(payment)),
      });
      statuses.push(response.status);
      await response.body?.cancel();
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, run));
  return { linkIds, statuses };
}

async function countPaid(linkIds: readonly string[]): Promise<number> {
  const deadline = Date.now() + SETTLE_TIMEOUT_MS;
  for (;;) {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from payment_links where id = any(${[...linkIds]}::text[]) and status = 'PAID'`;
    if (row?.count === linkIds.length || Date.now() > deadline) return row?.count ?? 0;
    await Bun.sleep(100);
  }
}

describe("relaying through a faulty node", () => {
  for (const [name, preset] of Object.entries(presets)) {
    test(`behavior: ${name}; ${PAYMENTS} payments, 0 lost, 0 wrongly failed`, async () => {
      let faults = 0;
      const random = seededRandom(name);
      // large batches make few requests: the first draw fails always, so that there is a fault
      let isFirst = true;
      const draw = preset(() => {
        if (!isFirst) return random();
        isFirst = false;
        return 0;
      });
      proxy.fault = (calls): Fault | undefined => {
        const fault = draw(calls);
        if (fault) faults += 1;
        return fault;
      };
      const merchant = await seedMerchant(sql);
      const { linkIds, statuses } = await payAll(merchant);
      expect(statuses.filter((status) => status !== 200 && status !== 202)).toEqual([]);
      expect(await countPaid(linkIds)).toBe(PAYMENTS);
      expect(faults).toBeGreaterThan(0);
      proxy.fault = () => undefined;
      expect(await readUsdcBalance(chain.rpcUrl, merchant.address)).toBe(AMOUNT * BigInt(PAYMENTS));
      const failed = await sql`select id from payments where state = 'FAILED'`;
      expect(failed.length).toBe(0);
      const twice = await sql`
        select link_id from transfers where pays and status <> 'ORPHANED' group by link_id having count(*) > 1`;
      expect(twice.length).toBe(0);
    }, 120_000);
  }
});
