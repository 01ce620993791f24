/** Which budget a relay reserves, raises and settles, and which of a day is shown: the conditions of the statements, one by one. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { RelayBudgetScope } from "../../core/domain/relay-budget.ts";
import {
  BudgetExceededError,
  type Charge,
  findBudget,
  raiseFeeCharge,
  reserveCharges,
  settleCharges,
  summarizeBudgets,
} from "../../db/relays/budgets.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type OperationLab, openOperationLab } from "../support/operation-lab.ts";

let lab: OperationLab;
let count = 0;
let subject: string;

beforeAll(async () => {
  lab = await openOperationLab();
});
beforeEach(beginWithinDay);
afterAll(() => lab?.stop());
beforeEach(() => {
  count += 1;
  subject = `subject-${count}`;
});

const charge = (scope: RelayBudgetScope, given: Partial<Charge> = {}): Charge => ({
  ...{ scope, subject, items: 1, amount: 10n, maximum: null },
  ...given,
});

const reserve = (relayId: bigint, ...charges: Charge[]) =>
  lab.sql.begin((tx) => reserveCharges(tx, { relayId, network: NETWORK, charges }));
const raise = (relayId: bigint, feeWei: bigint, maximum: bigint | null = null) =>
  lab.sql.begin((tx) => raiseFeeCharge(tx, relayId, { feeWei, maximum }));
const settle = (...relayIds: bigint[]) => lab.sql.begin((tx) => settleCharges(tx, relayIds));

async function budgetOf(
  scope: RelayBudgetScope,
  { of = subject, network = NETWORK }: { of?: string; network?: NetworkId } = {},
): Promise<[bigint, bigint]> {
  const { reserved, used } = await findBudget(lab.sql, { network, scope, subject: of });
  return [reserved, used];
}

/** A relay of this state that has used so much gas. */
async function relay(state = "SIGNED", given: object = {}): Promise<bigint> {
  const id = await lab.makeRelay(state, ["MINED", "CONFIRMED"].includes(state) ? 50 : null);
  await lab.sql`update relays set ${lab.sql({ gas_used: 6, fee_wei: 4, ...given })} where id = ${id}`;
  return id;
}

test("a budget belongs to its network, scope, subject and day", async () => {
  await reserve(await relay(), charge("SENDER"));
  expect(await budgetOf("SENDER")).toEqual([10n, 0n]);
  expect(await budgetOf("MERCHANT")).toEqual([0n, 0n]);
  expect(await budgetOf("SENDER", { of: "another" })).toEqual([0n, 0n]);
  expect(await budgetOf("SENDER", { network: "base" })).toEqual([0n, 0n]);
  await lab.sql`update relay_budgets set day = day - 1 where subject = ${subject}`;
  expect(await budgetOf("SENDER")).toEqual([0n, 0n]);
});

test("a relay that exceeds a budget is refused with all of its charges, unless that budget is advisory", async () => {
  const limited = (amount: bigint, isAdvisory = false) =>
    charge("MERCHANT", { amount, maximum: 25n, isAdvisory });
  await reserve(await relay(), limited(20n));
  await expect(reserve(await relay(), charge("FEES"), limited(6n))).rejects.toBeInstanceOf(
    BudgetExceededError,
  );
  expect([await budgetOf("FEES"), await budgetOf("MERCHANT")]).toEqual([
    [0n, 0n],
    [20n, 0n],
  ]);
  await reserve(await relay(), limited(5n));
  await expect(
    reserve(await relay(), charge("MERCHANT", { subject: `${subject}-2`, amount: 26n, maximum: 25n })),
  ).rejects.toBeInstanceOf(BudgetExceededError);
  await reserve(await relay(), limited(30n, true));
  expect(await budgetOf("MERCHANT")).toEqual([55n, 0n]);
  await expect(
    reserve(await relay(), limited(1n), charge("SENDER", { isAdvisory: true })),
  ).rejects.toBeInstanceOf(BudgetExceededError);
});

test("a higher offer raises the fees of its own relay only, within their limit, and never once they are settled", async () => {
  const [first, second] = [await relay(), await relay()];
  for (const id of [first, second]) await reserve(id, charge("FEES"), charge("SENDS"));
  await raise(first, 15n);
  expect([await budgetOf("FEES"), await budgetOf("SENDS")]).toEqual([
    [25n, 0n],
    [20n, 0n],
  ]);
  await raise(first, 12n, 1n);
  await expect(raise(second, 16n, 30n)).rejects.toBeInstanceOf(BudgetExceededError);
  await raise(second, 15n, 30n);
  expect(await budgetOf("FEES")).toEqual([30n, 0n]);
  const charges = await lab.sql<{ scope: string; amount: bigint }[]>`
    select scope, amount::bigint as amount from relay_charges where relay_id = ${first} order by scope`;
  expect([...charges]).toEqual([
    { scope: "FEES", amount: 15n },
    { scope: "SENDS", amount: 10n },
  ]);
  await lab.sql`update relays set state = 'LOST' where id = ${first}`;
  await settle(first);
  await raise(first, 100n);
  expect(await budgetOf("FEES")).toEqual([15n, 0n]);
});

test("a receipt replaces what its own relay reserved, once, scope by scope; a lost one cost nothing", async () => {
  const [mined, other, lost] = [await relay("MINED"), await relay("MINED"), await relay("LOST")];
  const scopes = ["FEES", "MERCHANT", "SENDER", "SENDS", "REVERTED"] as const;
  for (const id of [mined, other, lost]) await reserve(id, ...scopes.map((scope) => charge(scope)));
  for (let times = 0; times < 2; times++) await settle(mined, lost);
  const budgets = await Promise.all(scopes.map((scope) => budgetOf(scope)));
  expect(budgets).toEqual([
    [10n, 4n],
    [10n, 6n],
    [10n, 6n],
    [10n, 6n],
    [10n, 0n],
  ]);
});

test("a sender, like a merchant, uses its share of the gas; a pending relay keeps its reservation", async () => {
  const shared = await relay("CONFIRMED");
  const of = `${subject}-2`;
  for (const scope of ["SENDER", "MERCHANT"] as const)
    await reserve(shared, charge(scope, { items: 2 }), charge(scope, { subject: of, items: 1 }));
  await settle(shared);
  for (const scope of ["SENDER", "MERCHANT"] as const) {
    expect(await budgetOf(scope)).toEqual([0n, 4n]);
    expect(await budgetOf(scope, { of })).toEqual([0n, 2n]);
  }
  for (const state of ["SIGNED", "BROADCAST"]) {
    const pending = await relay(state);
    await reserve(pending, charge("FEES"));
    await settle(pending);
  }
  expect(await budgetOf("FEES")).toEqual([20n, 0n]);
});

test("the summary is of today's budgets", async () => {
  await lab.sql`delete from relay_budgets`;
  await reserve(await relay(), charge("SENDER", { amount: 7n, maximum: 8n }));
  const costs = { nextCost: 9n };
  const summary = () =>
    summarizeBudgets(lab.sql, { FEES: costs, MERCHANT: costs, REVERTED: costs, SENDS: costs, SENDER: costs });
  expect(await summary()).toEqual([{ network: NETWORK, scope: "SENDER", used: 0n, reserved: 7n, spent: 1 }]);
  await lab.sql`update relay_budgets set day = day - 1`;
  expect(await summary()).toEqual([]);
});
