/** The service's fee in a send's batch, and what sends cost in the budgets of gas. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { exportAs } from "../exports/ask.ts";
import { parseCsv } from "../exports/read-files.ts";
import type { Answer } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { refundLab } from "../support/refund-lab.ts";
import { confirmSend, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const FEE_ADDRESS = randomAddress();
const TOTAL = 10_000_000;
const ROOM = 640_000n;
const SEND = "/v1/wallets/send/prepare";

let world: World;
let sql: Sql;
let merchant: Merchant;

const { until, paidByX402, refunded } = refundLab(() => ({ world, sql, merchant }));

beforeAll(async () => {
  const env = { SEND_FEE_USDC: "0.05", FEE_ADDRESS, SEND_GAS_TOTAL_PER_DAY: String(TOTAL) };
  world = await startWorld({ env });
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
  merchant = await funded(10_000_000n);
});
afterAll(async () => {
  await sql?.end();
  await world?.stop();
});

async function funded(units: bigint): Promise<Merchant> {
  const made = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, made.walletAddress as Hex, units);
  // deployed by its job: the gas of its sends is theirs alone
  await until(async () => {
    const [wallet] = await sql`
      select from wallets where user_id = ${made.userId} and deployed_at is not null`;
    return wallet;
  });
  return made;
}

const treasury = () => readUsdcBalance(world.chain.rpcUrl, FEE_ADDRESS);

async function sent(body: Record<string, unknown>) {
  const prepared = await prepareSend(merchant, body);
  const answer = await confirmSend(merchant, prepared);
  if (answer.status !== 202) throw new Error(answer.text);
  await waitForSend(merchant, prepared.sendId);
  return { prepared, answer };
}

/** The budget of a scope and subject once all relays of operations have a receipt. */
async function settledBudget(scope: string, subject: string) {
  return until(async () => {
    const [row] = await sql<{ used: bigint; reserved: bigint }[]>`
      select used, reserved from relay_budgets where scope = ${scope} and subject = ${subject}`;
    return row?.reserved === 0n ? row : undefined;
  });
}

async function gasOfOperations(): Promise<bigint> {
  const [row] = await sql<{ gas: bigint }[]>`
    select sum(gas_used)::bigint as gas from relays where kind = 'OPERATIONS'`;
  return row?.gas ?? 0n;
}

describe("the fee of a send", () => {
  test("is shown, paid in the same batch, and in every record", async () => {
    const to = randomAddress();
    const before = await treasury();
    const { prepared, answer } = await sent({ to, amount: "1", note: "Rent" });
    expect(prepared.summary).toMatchObject({
      ...{ payments: [{ to, amount: "1.000000", note: "Rent" }], total: "1.050000", fee: "0.050000" },
      balanceAfter: "8.950000",
    });
    expect(JSON.stringify(prepared.warnings)).not.toContain(FEE_ADDRESS);
    expect(answer.body.transaction).toMatchObject({ amount: "1.000000", clientWalletAddress: to });
    expect(answer.body.transactions).toBeUndefined();
    expect([await treasury(), await readUsdcBalance(world.chain.rpcUrl, to)]).toEqual([
      before + 50_000n,
      1_000_000n,
    ]);
    const { body } = await merchant.client.get("/v1/transactions?types=SEND");
    const amounts = body.data.transactions.map(({ amount }: { amount: string }) => amount);
    expect(amounts.toSorted()).toEqual(["0.050000", "1.000000"]);
    const { text } = await exportAs(merchant.client, { format: "csv", profile: "accounting" });
    const [header = [], ...records] = parseCsv(text);
    const cell = (record: string[], name: string) => record[header.indexOf(name)];
    const shown = records.map((record) =>
      ["Amount", "Description", "kind", "fee_usdc"].map((name) => cell(record, name)),
    );
    expect(shown.toSorted()).toEqual([
      ["0.050000", "Service fee", "FEE", ""],
      ["1.000000", "Rent", "SEND", "0.050000"],
    ]);
  });

  test("is charged once for a payout", async () => {
    const before = await treasury();
    const payments = [randomAddress(), randomAddress()].map((to) => ({ to, amount: "0.5" }));
    const { prepared, answer } = await sent({ payments });
    expect(prepared.summary).toMatchObject({ total: "1.050000", fee: "0.050000" });
    expect(answer.body.transactions).toHaveLength(2);
    expect(await treasury()).toBe(before + 50_000n);
  });

  test("error: counts towards the balance, to the micro-USDC", async () => {
    const other = await funded(1_000_000n);
    const ask = (amount: string) => other.client.post(SEND, { to: randomAddress(), amount });
    expectRefusal(await ask("0.950001"), 409, { field: "amount", issue: "insufficient_funds" });
    const exact = await ask("0.95");
    expect(exact.body.summary).toMatchObject({ fee: "0.050000", balanceAfter: "0.000000" });
  });

  test("is not charged for a refund", async () => {
    const { linkId, payer } = await paidByX402(1);
    const before = await treasury();
    await refunded(linkId);
    expect([await treasury(), await readUsdcBalance(world.chain.rpcUrl, payer)]).toEqual([
      before,
      1_000_000n,
    ]);
  });
});

describe("the gas of sends", () => {
  test("is counted by receipts, for the network and for the user who signed", async () => {
    const { used } = await settledBudget("SENDS", "base-sepolia");
    expect(used).toBeGreaterThan(200_000n);
    expect(used).toBe(await gasOfOperations());
    expect((await settledBudget("SENDER", merchant.userId)).used).toBe(used);
  });

  test("is shared in one bundle; what exceeds the limit waits, and limits never undo a confirmation", async () => {
    const users = [await funded(2_000_000n), await funded(2_000_000n)];
    const before = await settledBudget("SENDS", "base-sepolia");
    await world.kill("worker");
    const prepared: Answer["body"][] = [];
    for (const user of users) {
      const one = await prepareSend(user, { to: randomAddress(), amount: "1" });
      expect((await confirmSend(user, one)).status).toBe(202);
      prepared.push(one);
    }
    // room for one of the two: its limit is below 600,000 gas, its use above 100,000
    const taken = BigInt(TOTAL) - ROOM - before.used;
    await sql`update relay_budgets set used = used + ${taken.toString()}::numeric where scope = 'SENDS'`;
    await world.start("worker");
    const states = () =>
      Promise.all(
        users.map(
          async ({ client }, index) =>
            (await client.get(`/v1/wallets/sends/${prepared[index]?.sendId}`)).body.status,
        ),
      );
    await until(async () => ((await states()).includes("CONFIRMED") ? true : undefined));
    await until(async () => {
      const [row] = await sql<{ used: bigint }[]>`
        select used from relay_budgets where scope = 'SENDS' and reserved = 0`;
      return row && row.used > BigInt(TOTAL) - ROOM ? row : undefined;
    });
    expect((await states()).toSorted()).toEqual(["CONFIRMED", "QUEUED"]);
    await sql`update relay_budgets set used = used - ${taken.toString()}::numeric where scope = 'SENDS'`;
    for (const [index, user] of users.entries()) await waitForSend(user, prepared[index]?.sendId);
    const [first, second] = [
      await settledBudget("SENDER", users[0]?.userId ?? ""),
      await settledBudget("SENDER", users[1]?.userId ?? ""),
    ];
    expect(first.used).toBeGreaterThan(80_000n);
    expect(second.used).toBeGreaterThan(80_000n);
  });
});

test("in the end the ledger agrees with the chain", async () => {
  await world.kill("indexer", "SIGTERM");
  await assertInvariants(sql, world.chain);
});
