/** What one user's sends, and all of a network, may cost: a day's gas, and a pause after failures. Asked at preparation, never at confirmation. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { Registry } from "prom-client";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { openWaitingMetrics } from "../../worker/jobs/waiting-metrics.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { confirmSend, expectRefusal, prepareSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

setDefaultTimeout(120_000);
const PREPARE = "/v1/wallets/send/prepare";
const LIMIT = 300_000;
const TOTAL = 1_000_000;
/** Gas limit of a first send to one recipient: calls, verification, bundle, deployment, and 30 a byte of call data. */
const FIRST_SEND = 120_000 + 150_000 + 250_000 + 300_000;
const TO = randomAddress();

let world: ApiWorld;

beforeAll(async () => {
  world = await startApiWorld({
    env: { SEND_GAS_PER_DAY: String(LIMIT), SEND_GAS_TOTAL_PER_DAY: String(TOTAL) },
  });
});
beforeEach(beginWithinDay);
afterAll(() => world?.stop());

async function funded(): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chainOf("base-sepolia").rpcUrl, merchant.walletAddress as Hex, 5_000_000n);
  return merchant;
}

let nonce = 0;

/** As if a relay that used so much gas had carried a send of theirs. */
async function sendThatUsed(
  merchant: Merchant,
  gas: number,
  { reason = null, isRelayed = true }: { reason?: string | null; isRelayed?: boolean } = {},
): Promise<string> {
  const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
  if ((await confirmSend(merchant, prepared)).status !== 202) throw new Error("not confirmed");
  nonce += 1;
  await world.sql`
    with counted as (
      insert into relay_budgets (network, scope, subject, day, used)
      values ('base-sepolia', 'SENDER', ${merchant.userId}, (now() at time zone 'utc')::date, ${gas})
      on conflict (network, scope, subject, day) do update
      set used = relay_budgets.used + excluded.used
    ),
    relay as (
      insert into relays (
        network, relayer, nonce, kind, state, call_to, call_data_start, call_data_bytes, gas_limit, gas_used, tx_hash, block_number
      )
      select 'base-sepolia', address, ${nonce}, 'OPERATIONS', 'CONFIRMED', '0x', 0, 0, 1000000, ${gas}, '0x01', 1
      from relayers
      limit 1
      returning id
    )
    update wallet_operations
    set
      state = ${reason === null ? "CONFIRMED" : "FAILED"}, reason = ${reason}, succeeded = ${reason === null},
      tx_hash = '0x01', relay_id = relay.id, relayed_at = case when ${isRelayed}::boolean then now() end
    from relay
    where wallet_operations.id = ${prepared.sendId}`;
  return prepared.sendId;
}

const ask = ({ client }: Merchant) => client.post(PREPARE, { to: TO, amount: "1" });
const setUsed = (userId: string, gas: number) =>
  world.sql`update relay_budgets set used = ${gas} where scope = 'SENDER' and subject = ${userId}`;

test("error: a day's gas is gas_budget with Retry-After; one gas less is accepted, yesterday's does not count", async () => {
  const merchant = await funded();
  await sendThatUsed(merchant, LIMIT - 1);
  const waiting = await prepareSend(merchant, { to: TO, amount: "1" });
  await setUsed(merchant.userId, LIMIT);
  const refused = await ask(merchant);
  expectRefusal(refused, 429, { issue: "gas_budget" });
  const retryAfterS = Number(refused.headers.get("retry-after"));
  expect(retryAfterS).toBeGreaterThan(0);
  expect(retryAfterS).toBeLessThanOrEqual(86_400);
  // limits bind preparation: what was prepared before is confirmed
  expect((await confirmSend(merchant, waiting)).status).toBe(202);
  await world.sql`delete from wallet_operation_items where operation_id = ${waiting.sendId}`;
  await world.sql`update wallet_operations set state = 'FAILED', reason = 'NOT_SENT' where id = ${waiting.sendId}`;
  await world.sql`update relay_budgets set day = day - 1 where subject = ${merchant.userId}`;
  expect((await ask(merchant)).status).toBe(201);
});

test("error: operations in flight count for the day until a receipt reports less", async () => {
  const merchant = await funded();
  await sendThatUsed(merchant, 1);
  await world.sql`update relay_budgets set reserved = ${LIMIT - 1} where subject = ${merchant.userId}`;
  expectRefusal(await ask(merchant), 429, { issue: "gas_budget" });
  await world.sql`update relay_budgets set reserved = ${LIMIT - 2} where subject = ${merchant.userId}`;
  expect((await ask(merchant)).status).toBe(201);
});

test("error: three failures within an hour pause the user for the rest of it; two or older ones do not", async () => {
  const merchant = await funded();
  const ids: string[] = [];
  for (let count = 0; count < 3; count++) {
    expect((await ask(merchant)).status).toBe(201);
    ids.push(await sendThatUsed(merchant, 1, { reason: "REVERTED" }));
  }
  const refused = await ask(merchant);
  expectRefusal(refused, 429, { issue: "gas_budget" });
  const registry = new Registry();
  openWaitingMetrics(registry, world.sql);
  expect(await registry.metrics()).toContain("wallet_senders_paused 1\n");
  const retryAfterS = Number(refused.headers.get("retry-after"));
  expect(retryAfterS).toBeGreaterThan(3_500);
  expect(retryAfterS).toBeLessThanOrEqual(3_600);
  await world.sql`update wallet_operations set queued_at = now() - interval '61 minutes' where id = ${ids[0] ?? ""}`;
  expect((await ask(merchant)).status).toBe(201);
});

test("failures that cost no gas, or are not the user's fault, pause nobody", async () => {
  const merchant = await funded();
  for (let count = 0; count < 3; count++) {
    await sendThatUsed(merchant, 1, { reason: "INSUFFICIENT_FUNDS", isRelayed: false });
    await sendThatUsed(merchant, 1, { reason: "NOT_RUN" });
  }
  expect((await ask(merchant)).status).toBe(201);
});

test("error: the network's share for sends is gas_budget: until midnight when used, shortly when only reserved", async () => {
  const merchant = await funded();
  const probe = await prepareSend(merchant, { to: TO, amount: "1" });
  const bytes = (probe.userOperation.callData.length - 2) / 2;
  const room = TOTAL - (FIRST_SEND + 30 * bytes);
  const share = (used: number, reserved: number) => world.sql`
    insert into relay_budgets (network, scope, subject, day, used, reserved)
    values ('base-sepolia', 'SENDS', 'base-sepolia', (now() at time zone 'utc')::date, ${used}, ${reserved})
    on conflict (network, scope, subject, day) do update
    set used = excluded.used, reserved = excluded.reserved`;
  await share(room, 0);
  expect((await ask(merchant)).status).toBe(201);
  await share(room + 1, 0);
  const spent = await ask(merchant);
  expectRefusal(spent, 429, { issue: "gas_budget" });
  await share(room, 1);
  const held = await ask(merchant);
  expectRefusal(held, 429, { issue: "gas_budget" });
  expect(Number(held.headers.get("retry-after"))).toBe(10);
  await share(0, 0);
});
