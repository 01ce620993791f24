/** What a shop's webhooks say when the block of a payment is replaced: one link is reported paid twice, and must be delivered once. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { payLink } from "../../sdk/pay-link.ts";
import { verifyWebhook } from "../../sdk/verify-webhook.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const BURIED_BLOCKS = 6;
let world: MerchantWorld;
let ann: Merchant;
let receiver: Receiver;

beforeAll(async () => {
  world = await startMerchantWorld({ env: { WEBHOOK_PRIVATE_TARGETS: "1" } });
  ann = await signUp(world.baseUrl);
  receiver = startReceiver();
}, 120_000);
afterAll(async () => {
  await world?.stop();
  await receiver?.stop();
});

const rpc = (method: string, params: readonly unknown[] = []) => callRpc(world.chain.rpcUrl, method, params);

async function mine(blocks: number): Promise<void> {
  for (let block = 0; block < blocks; block += 1) await rpc("evm_mine");
}

test("behavior: a payment whose block is replaced is reported paid twice, and a message in between says that the link is not paid", async () => {
  const eventTypes = ["payment_link.paid", "payment_link.reorged"];
  const { body } = await ann.client.post("/v1/webhook-endpoints", { url: receiver.url, eventTypes });
  const { id: endpointId, secret } = body.data;
  /** As the guide says: in the state that the message shows, once for each link. */
  const delivered: string[] = [];
  let isDown = true;
  receiver.answer(async ({ body: text, headers }) => {
    if (isDown) return new Response("down", { status: 503 });
    const { message } = await verifyWebhook(text, headers, { secret });
    const { link } = message.data;
    if (message.type === "payment_link.paid" && link?.status === "PAID" && !delivered.includes(link.id))
      delivered.push(link.id);
    return new Response("ok");
  });
  const ofType = (type: string) => receiver.received.filter(({ json }) => json.type === type);

  const account = privateKeyToAccount(generatePrivateKey());
  await fundUsdc(world.chain.rpcUrl, account.address, 1_000_000n);
  // what comes before the payment stays
  await mine(BURIED_BLOCKS);
  const given = { amount: 0.5, description: "Order" };
  const { id, aiUrl } = (await ann.client.post("/v1/payment-links", given)).body;
  await payLink(aiUrl, account, { maxAmount: 1 });
  const first = await waitFor("the first message", async () => ofType("payment_link.paid")[0]);
  expect(first.json.data.link).toMatchObject({ id, status: "PAID" });

  // the transaction is sent again, and no block takes it yet
  await rpc("evm_setAutomine", [false]);
  await rpc("anvil_reorg", [1, []]);
  await rpc("evm_setTime", [Math.floor(Date.now() / 1000)]);
  await waitFor("the event of the replaced block", async () => {
    const events = await world.sql`
      select id from events where subject_id = ${id} and type = 'payment_link.reorged'`;
    return events.length > 0;
  });
  isDown = false;
  const late = await waitFor("the first message again", async () => {
    await world.sql`
      update webhook_deliveries set next_try_at = now()
      where endpoint_id = ${endpointId} and state = 'PENDING' and lease_until is null`;
    await world.sql`select graphile_worker.add_job('deliver_webhooks', '{}'::json)`;
    return ofType("payment_link.paid").find(
      (message) => message.id === first.id && message.json.data.link.status !== "PAID",
    );
  });
  expect(late.json.data.link.paidAt).toBeNull();
  expect(delivered).toEqual([]);

  await rpc("evm_setAutomine", [true]);
  await mine(1);
  const second = await waitFor("the second message", async () =>
    ofType("payment_link.paid").find((message) => message.id !== first.id),
  );
  expect(second.json.data).toMatchObject({ subjectId: id, link: { id, status: "PAID" } });
  await waitFor("the delivery", async () => delivered.length > 0);
  expect(delivered).toEqual([id]);
}, 120_000);
