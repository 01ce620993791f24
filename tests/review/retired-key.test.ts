/** A relayer key that is taken out of use while a transaction of its is on the way. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import type { Hex } from "../../core/domain/networks.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  type Order,
  pay,
  paymentOf,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../relay/lab.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { PAY_WAIT_MS: "500" } });
}, 60_000);
afterAll(() => lab?.stop());
beforeEach(() => lab.rpc("evm_setAutomine", [true]));

/** Sent, dropped by the node, and the worker does not hold the key any more. */
async function strand(order: Order): Promise<Hex> {
  await lab.rpc("evm_setAutomine", [false]);
  await pay(lab, order);
  await waitFor(
    "the payment to be sent",
    async () => (await paymentOf(lab, order.linkId))?.state === "BROADCAST",
  );
  const relayer: Hex = `0x${randomBytes(20).toString("hex")}`;
  await lab.sql`insert into relayers (network, address, next_nonce) values ('base-sepolia', ${relayer}, 1000000)`;
  await lab.sql`update relays set relayer = ${relayer} where state in ('SIGNED', 'BROADCAST')`;
  const [attempt] = await lab.sql<{ txHash: Hex }[]>`
    select attempt.tx_hash
    from relay_attempts attempt
    join relays on relays.id = relay_id
    where relays.relayer = ${relayer}`;
  await lab.rpc("anvil_dropTransaction", [attempt?.txHash]);
  return relayer;
}

test("behavior: its bytes are sent again", async () => {
  const order = await newOrder(lab);
  const relayer = await strand(order);
  await lab.rpc("evm_setAutomine", [true]);
  await waitForLink(lab, order.linkId, "PAID", 12_000);
  expect(await countTransfers(lab, order.linkId)).toBe(1);
  await waitFor("its receipt", async () =>
    (await relaysOf(lab)).some((relay) => relay.relayer === relayer && relay.succeeded),
  );
}, 20_000);

test("behavior: bytes that no node takes hold the link until the authorization is over, not for ever", async () => {
  const order = await newOrder(lab, { validForS: 12 });
  const relayer = await strand(order);
  await lab.sql`update relay_attempts set raw = '0x00' from relays where relays.id = relay_id and relayer = ${relayer}`;
  await waitFor(
    "the link to be free",
    async () => {
      await lab.rpc("evm_mine");
      await Bun.sleep(200);
      return (await paymentOf(lab, order.linkId))?.state === "FAILED";
    },
    18_000,
  );
  expect(await paymentOf(lab, order.linkId)).toMatchObject({ reason: "EXPIRED_TRANSFER" });
  await waitForLink(lab, order.linkId, "ACTIVE", 1_000);
}, 30_000);
