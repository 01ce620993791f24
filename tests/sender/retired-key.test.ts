/** A relayer key that is taken out of use while a transaction of its is pending. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { newPaymentId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { insertFacilitatedPayments } from "../../db/payments/facilitated-payments.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, signPayment } from "../support/payer.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  pay,
  paymentOf,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { randomAddress } from "../support/seed.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { PAY_WAIT_MS: "500" } });
}, 120_000);
afterAll(() => lab?.stop());
beforeEach(() => lab.rpc("evm_setAutomine", [true]));

/**
 * Sent, dropped by the node, and the worker does not hold the key any more. It is stopped during that time: it must neither send again what is
 * dropped nor take the nonce for a gap.
 */
async function strand(send: () => Promise<unknown>, options: { spoilBytes?: boolean } = {}): Promise<Hex> {
  await lab.rpc("evm_setAutomine", [false]);
  await send();
  await waitFor("the payment to be sent", async () =>
    (await relaysOf(lab)).some(
      ({ relayer, kind, state }) => relayer === lab.relayer && kind === "PAYMENTS" && state === "BROADCAST",
    ),
  );
  await lab.service.kill("worker");
  const relayer: Hex = `0x${randomBytes(20).toString("hex")}`;
  await lab.sql`insert into relayers (network, address, next_nonce) values ('base-sepolia', ${relayer}, 1000000)`;
  await lab.sql`
    update relays
    set relayer = ${relayer}
    where relayer = ${lab.relayer} and kind = 'PAYMENTS' and state in ('SIGNED', 'BROADCAST')`;
  const attempts = await lab.sql<{ txHash: Hex }[]>`
    select attempt.tx_hash
    from relay_attempts attempt
    join relays on relays.id = relay_id
    where relays.relayer = ${relayer}`;
  for (const { txHash } of attempts) await lab.rpc("anvil_dropTransaction", [txHash]);
  expect(attempts.length).toBeGreaterThan(0);
  if (options.spoilBytes) {
    await lab.sql`update relay_attempts set raw = '\\x00' from relays where relays.id = relay_id and relayer = ${relayer}`;
  }
  await lab.service.start("worker");
  return relayer;
}

/** Mines blocks, without the dropped transaction, until the payment has failed. */
async function mineUntilFailed(
  readPayment: () => Promise<{ state: string; reason: string | null } | undefined>,
): Promise<void> {
  await waitFor(
    "the payment to fail",
    async () => {
      await lab.rpc("evm_mine");
      await Bun.sleep(200);
      const state = (await readPayment())?.state ?? "";
      expect(["QUEUED", "SIGNED", "BROADCAST", "FAILED"]).toContain(state);
      return state === "FAILED";
    },
    100_000,
  );
}

test("behavior: the stored bytes of a retired key are resent", async () => {
  const order = await newOrder(lab);
  const relayer = await strand(() => pay(lab, order));
  await lab.rpc("evm_setAutomine", [true]);
  await waitForLink(lab, order.linkId, "PAID");
  expect(await countTransfers(lab, order.linkId)).toBe(1);
  await waitFor("its receipt", async () =>
    (await relaysOf(lab)).some((relay) => relay.relayer === relayer && relay.succeeded),
  );
}, 120_000);

test("behavior: a retired key's bytes that every node rejects hold the link only until the authorization ends", async () => {
  const order = await newOrder(lab, { validForS: 20 });
  await strand(() => pay(lab, order), { spoilBytes: true });
  await mineUntilFailed(() => paymentOf(lab, order.linkId));
  expect(await paymentOf(lab, order.linkId)).toMatchObject({ reason: "EXPIRED_TRANSFER" });
  await waitForLink(lab, order.linkId, "ACTIVE");
}, 120_000);

test("behavior: a facilitated payment of a retired key also ends when its authorization expires", async () => {
  const payer = makePayer();
  const validBefore = Math.floor(Date.now() / 1000) + 20;
  const signed = await signPayment(payer, { to: randomAddress(), amountUnits: 1_000n, validBefore });
  await fundUsdc(lab.chain.rpcUrl, payer.address, 1_000n);
  const id = newPaymentId();
  const read = async () => {
    const [row] = await lab.sql<{ state: string; reason: string | null }[]>`
      select state, reason from payments where id = ${id}`;
    return row;
  };
  const accept = () =>
    lab.sql.begin(async (tx) => {
      const { from, to, nonce, signature } = signed;
      await insertFacilitatedPayments(tx, [
        {
          ...{ id, network: "base-sepolia", token: NETWORKS["base-sepolia"].usdc.address, payer: from },
          ...{ payerKind: "EOA", recipient: to, amountUnits: 1_000n, nonce, signature, idempotencyKey: null },
          ...{ validAfter: 0n, validBefore: BigInt(validBefore), requestId: null },
          facilitatorUserId: lab.merchant.userId,
          facilitatorKeyId: "key_test",
        },
      ]);
      await enqueue(tx, "relay_payments", { network: "base-sepolia" });
    });
  await strand(accept, { spoilBytes: true });
  await mineUntilFailed(read);
  expect(await read()).toMatchObject({ reason: "EXPIRED_TRANSFER" });
}, 120_000);
