/** The ledger of relay budgets: reserved in the transaction that signs, settled by the receipt, safe when many sign at once. */

import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { Registry } from "prom-client";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { buildNoopCall } from "../../core/chain/relay.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import {
  type LeasedPayment,
  leaseQueuedPayments,
  markSigned,
  returnLeases,
} from "../../db/payments/queue.ts";
import { BudgetExceededError, raiseFeeCharge, settleCharges } from "../../db/relays/budgets.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { insertAttempt, markMined } from "../../db/relays/relays.ts";
import { chargesOf, type PaymentLimits, paymentBudgets } from "../../worker/payments/payment-budgets.ts";
import type { LocalKey } from "../../worker/relayer-keys-env.ts";
import { openBudgetMetrics } from "../../worker/sender/budget-metrics.ts";
import { storeRelay } from "../../worker/sender/send-relay.ts";
import { sendBudgets } from "../../worker/wallet-ops/send-budgets.ts";
import { asLeased } from "../support/as-leased.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { accept, type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";

const FEES = { maxFeePerGas: 1_000n, maxPriorityFeePerGas: 10n };
const NOOP_WEI = 21_000n * FEES.maxFeePerGas;
const PAYMENT_GAS = 150_000n;
const NO_LIMITS: PaymentLimits = {
  relayGasPerMerchantPerDay: undefined,
  relayRevertedGasPerDay: 10_000_000n,
};
let lab: BooksLab;
/** Signing asks no node. */
let chain: Chain;

beforeAll(async () => {
  lab = await openBooks();
  chain = openChain({ network: NETWORK, urls: ["http://127.0.0.1:1"], timeoutMs: 1_000 });
});
beforeEach(beginWithinDay);
afterAll(async () => {
  chain?.close();
  await lab?.stop();
});

async function newKey(): Promise<LocalKey> {
  const privateKey = generatePrivateKey();
  const address = privateKeyToAccount(privateKey).address.toLowerCase() as Hex;
  await ensureLane(lab.sql, { network: NETWORK, relayer: address }, 0n);
  return { address, privateKey };
}

/** A budget of fees is the network's: each test begins with what is counted so far. */
async function feesCounted(): Promise<bigint> {
  const [row] = await lab.sql<{ counted: bigint }[]>`
    select coalesce(sum(used + reserved), 0)::numeric(78, 0) as counted from relay_budgets where scope = 'FEES'`;
  return row?.counted ?? 0n;
}

async function budgetOf(subject: string, scope = "MERCHANT") {
  const [row] = await lab.sql<{ reserved: bigint; used: bigint }[]>`
    select reserved, used from relay_budgets where scope = ${scope} and subject = ${subject}`;
  return row;
}

async function storeNoop(dailyFeeMaxWei: bigint | undefined, key?: LocalKey) {
  const by = key ?? (await newKey());
  const call = buildNoopCall(by.address);
  return lab.sql.begin((tx) => storeRelay(tx, chain, by, { kind: "NOOP", call, fees: FEES, dailyFeeMaxWei }));
}

async function newPayments(merchant: SeededMerchant, count: number): Promise<LeasedPayment[]> {
  const ids: string[] = [];
  while (ids.length < count) {
    const payment = await accept({ ...lab, merchant }, await seedLink(lab.sql, merchant));
    if (!payment) throw new Error("a payment was not accepted");
    ids.push(payment.id);
  }
  return lease(ids);
}

async function lease(ids: readonly string[]): Promise<LeasedPayment[]> {
  await returnLeases(
    lab.sql,
    await asLeased(
      lab.sql,
      ids.map((id) => ({ id })),
    ),
    0,
  );
  const leased = await leaseQueuedPayments(lab.sql, NETWORK, 1_000, 60_000);
  return leased.filter(({ id }) => ids.includes(id));
}

async function storePayments(
  payments: readonly LeasedPayment[],
  gas: bigint,
  options: Partial<PaymentLimits> & { implementation?: string; key?: LocalKey } = {},
) {
  const { implementation, key = await newKey(), ...limits } = options;
  const call = { to: NETWORKS[NETWORK].usdc.address, data: "0xe3ee160e" as const, gas };
  return lab.sql.begin((tx) =>
    storeRelay(tx, chain, key, {
      ...{ kind: "PAYMENTS", call, fees: FEES, dailyFeeMaxWei: undefined },
      async bind(tx, relayId) {
        await markSigned(tx, relayId, payments);
        return chargesOf(payments, { gas, implementation, limits: { ...NO_LIMITS, ...limits } });
      },
    }),
  );
}

async function mine(
  relayId: bigint,
  { gasUsed, succeeded = true }: { gasUsed: bigint; succeeded?: boolean },
) {
  const place = { blockNumber: 90n, blockHash: randomHash() };
  const receipt = { relayId, txHash: randomHash(), ...place, succeeded, gasUsed, feeWei: gasUsed * 500n };
  await lab.sql.begin(async (tx) => {
    await markMined(tx, [receipt]);
    await settleCharges(tx, [relayId]);
  });
}

test("fees: an offer that just fits is stored, one wei too high is not, and takes no nonce", async () => {
  const key = await newKey();
  const before = await feesCounted();
  await storeNoop(before + NOOP_WEI, key);
  await expect(storeNoop(before + 2n * NOOP_WEI - 1n, key)).rejects.toBeInstanceOf(BudgetExceededError);
  const next = await storeNoop(before + 2n * NOOP_WEI, key);
  expect(next.nonce).toBe(1n);
  expect(await feesCounted()).toBe(before + 2n * NOOP_WEI);
});

test("fees: of 12 that sign concurrently with room for 3, 3 are stored", async () => {
  const keys = await Promise.all(Array.from({ length: 12 }, newKey));
  const before = await feesCounted();
  const outcomes = await Promise.allSettled(keys.map((key) => storeNoop(before + 3n * NOOP_WEI, key)));
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
  for (const outcome of outcomes) {
    if (outcome.status === "rejected") expect(outcome.reason).toBeInstanceOf(BudgetExceededError);
  }
  expect(await feesCounted()).toBe(before + 3n * NOOP_WEI);
});

test("fees: a receipt replaces the reservation by the fee, once; a lost relay costs nothing", async () => {
  const [mined, lost] = [await storeNoop(undefined), await storeNoop(undefined)];
  const before = await feesCounted();
  await mine(mined.relayId, { gasUsed: 21_000n });
  const after = before - NOOP_WEI + 21_000n * 500n;
  expect(await feesCounted()).toBe(after);
  await lab.sql.begin((tx) => settleCharges(tx, [mined.relayId, mined.relayId]));
  expect(await feesCounted()).toBe(after);
  await lab.sql`update relays set state = 'LOST' where id = ${lost.relayId}`;
  await lab.sql.begin((tx) => settleCharges(tx, [lost.relayId]));
  expect(await feesCounted()).toBe(after - NOOP_WEI);
});

test("fees: a higher offer counts instead of the lower one, up to the limit and no further", async () => {
  const { relayId } = await storeNoop(undefined);
  const before = await feesCounted();
  const raise = (feeWei: bigint, maximum: bigint | null) =>
    lab.sql.begin(async (tx) => {
      const fees = { maxFeePerGas: feeWei / 21_000n, maxPriorityFeePerGas: 20n };
      await insertAttempt(tx, relayId, { txHash: randomHash(), raw: "0x", ...fees });
      await raiseFeeCharge(tx, relayId, { feeWei, maximum });
    });
  await expect(raise(NOOP_WEI + 21_000n, before + 20_999n)).rejects.toBeInstanceOf(BudgetExceededError);
  expect(await feesCounted()).toBe(before);
  await raise(NOOP_WEI + 21_000n, before + 21_000n);
  expect(await feesCounted()).toBe(before + 21_000n);
  // a no-op in the place of a costlier transaction reserves nothing more
  await raise(NOOP_WEI - 21_000n, before);
  expect(await feesCounted()).toBe(before + 21_000n);
  const attempts = await lab.sql`select from relay_attempts where relay_id = ${relayId}`;
  expect(attempts.length).toBe(3);
});

test("fees: of several concurrent higher offers, as many are counted as there is room for", async () => {
  const relays = await Promise.all(Array.from({ length: 8 }, () => storeNoop(undefined)));
  const maximum = (await feesCounted()) + 2n * 21_000n;
  const outcomes = await Promise.allSettled(
    relays.map(({ relayId }) =>
      lab.sql.begin((tx) => raiseFeeCharge(tx, relayId, { feeWei: NOOP_WEI + 21_000n, maximum })),
    ),
  );
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
  expect(await feesCounted()).toBe(maximum);
});

test("merchants: each reserves its share of a batch's gas, and uses its share of what the batch used", async () => {
  const [one, two] = [await seedMerchant(lab.sql), await seedMerchant(lab.sql)];
  const payments = [...(await newPayments(one, 1)), ...(await newPayments(two, 2))];
  const { relayId } = await storePayments(payments, 330_000n);
  expect(await budgetOf(one.userId)).toEqual({ reserved: 110_000n, used: 0n });
  expect(await budgetOf(two.userId)).toEqual({ reserved: 220_000n, used: 0n });
  // requeued payments have left their relay by the time it is settled
  await lab.sql`update payments set relay_id = null, state = 'QUEUED' where relay_id = ${relayId}`;
  await mine(relayId, { gasUsed: 180_001n, succeeded: false });
  expect(await budgetOf(one.userId)).toEqual({ reserved: 0n, used: 60_001n });
  expect(await budgetOf(two.userId)).toEqual({ reserved: 0n, used: 120_001n });
});

test("merchants: of 10 payments that sign concurrently with room for 2, 2 are stored, also with a merchant's own limit", async () => {
  for (const isOwn of [false, true]) {
    const merchant = await seedMerchant(lab.sql);
    const gas = 2n * PAYMENT_GAS;
    if (isOwn) await lab.sql`update users set relay_gas_per_day = ${gas} where id = ${merchant.userId}`;
    const payments = await newPayments(merchant, 10);
    const relayGasPerMerchantPerDay = isOwn ? 1n : gas;
    const keys = await Promise.all(payments.map(newKey));
    const outcomes = await Promise.allSettled(
      payments.map((payment, index) =>
        storePayments([payment], PAYMENT_GAS, { relayGasPerMerchantPerDay, key: keys[index] as LocalKey }),
      ),
    );
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
    expect(await budgetOf(merchant.userId)).toEqual({ reserved: gas, used: 0n });
    const [row] = await lab.sql<{ queued: number }[]>`
      select count(*)::int as queued from payments where id = any(${payments.map(({ id }) => id)}::text[]) and state = 'QUEUED'`;
    expect(row?.queued).toBe(8);
  }
});

test("merchants: a first payment that just fits is stored, with one unit of gas less it is not", async () => {
  for (const missing of [0n, 1n]) {
    const merchant = await seedMerchant(lab.sql);
    const storing = storePayments(await newPayments(merchant, 1), PAYMENT_GAS, {
      relayGasPerMerchantPerDay: PAYMENT_GAS - missing,
    });
    if (missing === 0n) await storing;
    if (missing === 1n) await expect(storing).rejects.toBeInstanceOf(BudgetExceededError);
    const budget = missing === 0n ? { reserved: PAYMENT_GAS, used: 0n } : undefined;
    expect(await budgetOf(merchant.userId)).toEqual(budget);
  }
});

test("merchants: payments settled for an API key count against its owner", async () => {
  const merchant = await seedMerchant(lab.sql);
  const [{ id = "" } = {}] = await newPayments(merchant, 1);
  const owner = await seedMerchant(lab.sql);
  await lab.sql`update transactions set payment_id = null where payment_id = ${id}`;
  await lab.sql`update payments set link_id = null, facilitator_user_id = ${owner.userId} where id = ${id}`;
  await storePayments(await lease([id]), PAYMENT_GAS);
  expect(await budgetOf(owner.userId)).toEqual({ reserved: PAYMENT_GAS, used: 0n });
  expect(await budgetOf(merchant.userId)).toBeUndefined();
});

test("reverted: relays in flight and reverted ones fill the budget of an implementation; successful ones do not", async () => {
  const implementation = `0x${"ab".repeat(20)}`;
  const gas = 200_000n;
  const limit = { implementation, relayRevertedGasPerDay: 2n * gas };
  const payments = await newPayments(await seedMerchant(lab.sql), 9);
  const keys = await Promise.all(payments.map(newKey));
  const outcomes = await Promise.allSettled(
    payments
      .slice(0, 6)
      .map((payment, index) => storePayments([payment], gas, { ...limit, key: keys[index] as LocalKey })),
  );
  const stored = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  expect(stored).toHaveLength(2);
  const [first, second] = stored.map(({ relayId }) => relayId);
  await mine(first ?? 0n, { gasUsed: 90_000n });
  await mine(second ?? 0n, { gasUsed: gas, succeeded: false });
  expect(await budgetOf(implementation, "REVERTED")).toEqual({ reserved: 0n, used: gas });
  const third = await storePayments(payments.slice(6, 7), gas, limit);
  await expect(storePayments(payments.slice(7, 8), gas, limit)).rejects.toBeInstanceOf(BudgetExceededError);
  // mined well and settled nothing all the same
  await mine(third.relayId, { gasUsed: 150_000n });
  await lab.sql.begin((tx) => settleCharges(tx, [third.relayId], { areUnsettled: true }));
  expect(await budgetOf(implementation, "REVERTED")).toEqual({ reserved: 0n, used: 350_000n });
  await storePayments(payments.slice(8), gas, { ...limit, implementation: `0x${"cd".repeat(20)}` });
});

test("metrics show what is used, reserved and allowed, and how many budgets have no room for another payment", async () => {
  const merchants = [await seedMerchant(lab.sql), await seedMerchant(lab.sql), await seedMerchant(lab.sql)];
  await lab.sql`delete from relay_budgets`;
  const limit = { relayGasPerMerchantPerDay: 2n * PAYMENT_GAS };
  const used = [PAYMENT_GAS, PAYMENT_GAS + 1n];
  for (const [index, merchant] of merchants.entries()) {
    const { relayId } = await storePayments(await newPayments(merchant, 1), PAYMENT_GAS, limit);
    const gasUsed = used[index];
    if (gasUsed !== undefined) await mine(relayId, { gasUsed });
  }
  const registry = new Registry();
  openBudgetMetrics(registry, {
    ...{ sql: lab.sql, networks: [NETWORK], maxFeeWei: 2_000_000_000n, dailyFeeMaxWei: undefined },
    budgets: {
      ...paymentBudgets({ ...NO_LIMITS, ...limit }),
      ...sendBudgets({ sendGasPerDay: 5_000_000n, sendGasTotalPerDay: 9_000_000n }),
    },
  });
  const text = await registry.metrics();
  const lines = [
    'relay_budget_used{network="base-sepolia",scope="MERCHANT"} 150001',
    'relay_budget_reserved{network="base-sepolia",scope="MERCHANT"} 150000',
    'relay_budgets_spent{network="base-sepolia",scope="MERCHANT"} 1',
    'relay_budgets_spent{network="base-sepolia",scope="FEES"} 0',
    'relay_budget_limit{network="base-sepolia",scope="MERCHANT"} 300000',
    'relay_budget_limit{network="base-sepolia",scope="REVERTED"} 10000000',
    'relay_budget_limit{network="base-sepolia",scope="SENDER"} 5000000',
    'relay_budget_limit{network="base-sepolia",scope="SENDS"} 9000000',
    'relay_max_fee_wei{network="base-sepolia"} 2000000000',
  ];
  for (const line of lines) expect(text).toContain(`${line}\n`);
  expect(text).not.toContain('relay_budget_limit{network="base-sepolia",scope="FEES"}');
});

test("yesterday's figures do not count today", async () => {
  const merchant = await seedMerchant(lab.sql);
  const payments = await newPayments(merchant, 3);
  const limit = { relayGasPerMerchantPerDay: PAYMENT_GAS };
  await storePayments(payments.slice(0, 1), PAYMENT_GAS, limit);
  await expect(storePayments(payments.slice(1, 2), PAYMENT_GAS, limit)).rejects.toBeInstanceOf(
    BudgetExceededError,
  );
  await lab.sql`
    with moved as (
      insert into relay_budgets (network, scope, subject, day, reserved, used, maximum)
      select network, scope, subject, day - 1, reserved, used, maximum
      from relay_budgets where subject = ${merchant.userId}
      returning day
    )
    update relay_budgets set reserved = 0 where subject = ${merchant.userId} and exists (select from moved)`;
  await storePayments(payments.slice(2), PAYMENT_GAS, limit);
});
