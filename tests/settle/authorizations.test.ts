import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import {
  amounts,
  findHistory,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  openLab,
  pay,
  type RunningIndexer,
  randomAddress,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import {
  acceptPayment,
  authorize,
  makeSigner,
  paymentOf,
  sendBatch,
} from "../support/indexer-lab-payments.ts";
import { assertInvariants } from "../support/invariants.ts";
import { signCancel } from "../support/payer.ts";

let lab: Lab;
let indexer: RunningIndexer;
let merchant: Merchant;
let payer: Hex;
beforeAll(async () => {
  lab = await openLab();
  indexer = startIndexer(lab);
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
});
afterAll(async () => {
  await assertInvariants(lab.sql, lab.chain);
  await indexer.stop();
  await lab.stop();
});
const freshUnits = amounts();
const historyOf = (txHash: Hex, userId = merchant.userId) => findHistory(lab, txHash, userId);

describe("an authorization", () => {
  test("broadcast by a third party settles its payment, whose history row keeps its id", async () => {
    const signer = await makeSigner(lab);
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    await makeLink(lab, merchant, { units });
    const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
    const paymentId = await acceptPayment(lab, linkId, authorization);
    const [open] = await lab.sql<
      { id: string }[]
    >`select id from pending_transactions where payment_id = ${paymentId ?? ""}`;
    expect(open?.id).toStartWith("txn_");
    const txHash = await send(lab, payer, USDC, data);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "CONFIRMED", txHash, reason: null });
    expect(await historyOf(txHash)).toMatchObject([
      { id: open?.id, type: "PAYMENT_LINK", status: "CONFIRMED", linkId, counterparty: signer.lower },
    ]);
  });

  test("several in one batch settle their payments", async () => {
    const jobs = await Promise.all(
      [1, 2, 3, 4].map(async () => {
        const signer = await makeSigner(lab);
        const units = freshUnits();
        const linkId = await makeLink(lab, merchant, { units });
        const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
        return { linkId, data, paymentId: await acceptPayment(lab, linkId, authorization) };
      }),
    );
    await sendBatch(
      lab,
      payer,
      jobs.map(({ data }) => ({ target: USDC, callData: data })),
    );
    await settled(lab);
    for (const { linkId, paymentId } of jobs) {
      expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
      expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "CONFIRMED" });
    }
  });

  test("several of one amount leave that amount's remaining link to the plain transfer after them", async () => {
    const units = freshUnits();
    const links = await Promise.all(Array.from({ length: 8 }, () => makeLink(lab, merchant, { units })));
    const calls = await Promise.all(
      links.slice(0, -1).map(async (linkId) => {
        const signer = await makeSigner(lab);
        const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
        await acceptPayment(lab, linkId, authorization);
        return { target: USDC, callData: data };
      }),
    );
    await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [false]);
    await sendBatch(lab, payer, calls);
    await pay(lab, payer, merchant.address, units);
    await callRpc(lab.chain.rpcUrl, "evm_mine");
    await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [true]);
    await settled(lab);
    for (const id of links)
      expect(await linkOf(lab, id)).toMatchObject({ status: "PAID", exception: "NONE" });
  });

  test("cancelled by the payer: its payment is FAILED and its link payable again", async () => {
    const signer = await makeSigner(lab);
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const { authorization } = await authorize(signer, { to: merchant.address, value: units });
    const paymentId = await acceptPayment(lab, linkId, authorization);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    await send(lab, payer, USDC, await signCancel(signer, authorization.nonce));
    await settled(lab);
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    const rows =
      await lab.sql`select status, failure_reason from transactions where payment_id = ${paymentId ?? ""}`;
    expect([...rows]).toEqual([{ status: "FAILED", failureReason: "NONCE_USED" }]);
  });

  test("whose nonce the payer used for another recipient can never pay: FAILED", async () => {
    const signer = await makeSigner(lab);
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const { authorization } = await authorize(signer, { to: merchant.address, value: units });
    const paymentId = await acceptPayment(lab, linkId, authorization);
    const { nonce } = authorization;
    const rival = await authorize(signer, { to: randomAddress(), value: units, nonce });
    await send(lab, payer, USDC, rival.data);
    await settled(lab);
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });

  test("executed although its payment had FAILED: settled if the link is unpaid", async () => {
    const signer = await makeSigner(lab);
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
    const paymentId = await acceptPayment(lab, linkId, authorization);
    await lab.sql`update payments set state = 'FAILED', reason = 'EXPIRED_TRANSFER' where id = ${paymentId ?? ""}`;
    await lab.sql`update payment_links set status = 'ACTIVE' where id = ${linkId}`;
    await send(lab, payer, USDC, data);
    await settled(lab);
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "CONFIRMED", reason: null });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
  });

  test("of a FAILED payment whose link was paid in between: received, DUPLICATE", async () => {
    const signer = await makeSigner(lab);
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
    const paymentId = await acceptPayment(lab, linkId, authorization);
    await lab.sql`update payments set state = 'FAILED', reason = 'EXPIRED_TRANSFER' where id = ${paymentId ?? ""}`;
    await lab.sql`update payment_links set status = 'ACTIVE' where id = ${linkId}`;
    await pay(lab, payer, merchant.address, units);
    const txHash = await send(lab, payer, USDC, data);
    await settled(lab);
    expect(await paymentOf(lab, paymentId)).toMatchObject({ state: "FAILED", reason: "EXPIRED_TRANSFER" });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "DUPLICATE" });
    expect(await historyOf(txHash)).toMatchObject([{ type: "RECEIVE", status: "CONFIRMED", linkId }]);
  });

  test("mined after the link's expiry: PAID_LATE", async () => {
    const signer = await makeSigner(lab);
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
    await acceptPayment(lab, linkId, authorization);
    await lab.sql`update payment_links set created_at = now() - interval '9 s', expires_at = now() - interval '3 s' where id = ${linkId}`;
    await send(lab, payer, USDC, data);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "PAID_LATE" });
  });

  test("executed long before a link was created does not pay it", async () => {
    const signer = await makeSigner(lab);
    const units = freshUnits();
    const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
    const txHash = await send(lab, payer, USDC, data);
    await settled(lab);
    const linkId = await makeLink(lab, merchant, { units, madeInS: 3_600, endsInS: 7_200 });
    const paymentId = await acceptPayment(lab, linkId, authorization);
    await until("it is refused", async () => (await paymentOf(lab, paymentId)).state === "FAILED");
    expect(await paymentOf(lab, paymentId)).toMatchObject({ reason: "NONCE_USED" });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
    expect(await historyOf(txHash)).toMatchObject([{ type: "RECEIVE", linkId: null }]);
  });

  test("accepted after the block that executed it was read pays nothing: it was already public", async () => {
    const signer = await makeSigner(lab);
    const units = freshUnits();
    const links = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
    const { authorization, data } = await authorize(signer, { to: merchant.address, value: units });
    const txHash = await send(lab, payer, USDC, data);
    await settled(lab);
    expect(await historyOf(txHash)).toMatchObject([{ type: "RECEIVE", linkId: null }]);
    const paymentId = await acceptPayment(lab, links[1] ?? "", authorization);
    await until("the payment has ended", async () => (await paymentOf(lab, paymentId)).state === "FAILED");
    expect(await paymentOf(lab, paymentId)).toMatchObject({ reason: "NONCE_USED" });
    for (const id of links) expect(await linkOf(lab, id)).toMatchObject({ status: "ACTIVE" });
    const [row] = await historyOf(txHash);
    expect(row).toMatchObject({ type: "RECEIVE", linkId: null });
    expect(row?.candidates?.toSorted()).toEqual(links.toSorted());
  });
});
