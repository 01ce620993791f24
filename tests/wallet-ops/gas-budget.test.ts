/** What one user's sends may cost: a day's gas, and a pause after failures. Asked at preparation, never at confirmation. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { confirmSend, expectRefusal, prepareSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

setDefaultTimeout(120_000);
const PREPARE = "/v1/wallets/send/prepare";
const LIMIT = 300_000;
const TO = randomAddress();

let world: ApiWorld;

beforeAll(async () => {
  world = await startApiWorld({ env: { SEND_GAS_PER_DAY: String(LIMIT) } });
});
afterAll(() => world?.stop());

async function funded(): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chainOf("base-sepolia").rpcUrl, merchant.walletAddress as Hex, 5_000_000n);
  return merchant;
}

let nonce = 0;

/** As if a relay that used so much gas had carried a send of theirs. */
async function sendThatUsed(merchant: Merchant, gas: number, { succeeded = true } = {}): Promise<string> {
  const prepared = await prepareSend(merchant, { to: TO, amount: "1" });
  if ((await confirmSend(merchant, prepared)).status !== 202) throw new Error("not confirmed");
  nonce += 1;
  await world.sql`
    with relay as (
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
      state = ${succeeded ? "CONFIRMED" : "FAILED"}, reason = ${succeeded ? null : "REVERTED"}, succeeded = ${succeeded},
      tx_hash = '0x01', relay_id = relay.id
    from relay
    where wallet_operations.id = ${prepared.sendId}`;
  return prepared.sendId;
}

test("error: a day's gas is gas_budget with Retry-After; one gas less is taken, yesterday's does not count", async () => {
  const merchant = await funded();
  const id = await sendThatUsed(merchant, LIMIT - 1);
  const waiting = await prepareSend(merchant, { to: TO, amount: "1" });
  await world.sql`update relays set gas_used = ${LIMIT} where gas_used = ${LIMIT - 1}`;
  const refused = await merchant.client.post(PREPARE, { to: TO, amount: "1" });
  expectRefusal(refused, 429, { issue: "gas_budget" });
  const retryAfterS = Number(refused.headers.get("retry-after"));
  expect(retryAfterS).toBeGreaterThan(0);
  expect(retryAfterS).toBeLessThanOrEqual(86_400);
  // limits bind preparation: what was prepared before is confirmed
  expect((await confirmSend(merchant, waiting)).status).toBe(202);
  await world.sql`update wallet_operations set queued_at = now() - interval '25 hours' where id = ${id}`;
  await world.sql`delete from wallet_operation_items where operation_id = ${waiting.sendId}`;
  await world.sql`update wallet_operations set state = 'FAILED', reason = 'NOT_SENT' where id = ${waiting.sendId}`;
  expect((await merchant.client.post(PREPARE, { to: TO, amount: "1" })).status).toBe(201);
});

test("error: three failures within an hour pause the user for the rest of it; two do not, nor older ones", async () => {
  const merchant = await funded();
  const ids: string[] = [];
  for (let count = 0; count < 3; count++) ids.push(await sendThatUsed(merchant, 1, { succeeded: false }));
  const refused = await merchant.client.post(PREPARE, { to: TO, amount: "1" });
  expectRefusal(refused, 429, { issue: "gas_budget" });
  const retryAfterS = Number(refused.headers.get("retry-after"));
  expect(retryAfterS).toBeGreaterThan(3_500);
  expect(retryAfterS).toBeLessThanOrEqual(3_600);
  await world.sql`update wallet_operations set queued_at = now() - interval '61 minutes' where id = ${ids[0] ?? ""}`;
  expect((await merchant.client.post(PREPARE, { to: TO, amount: "1" })).status).toBe(201);
});
