import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeFunctionData, parseAbi } from "viem";
import type { Hex } from "../../core/domain/networks.ts";
import {
  amounts,
  findHistory,
  headOf,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  openLab,
  pay,
  type RunningIndexer,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { sendBatch } from "../support/indexer-lab-payments.ts";
import { assertInvariants } from "../support/invariants.ts";

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

describe("a plain transfer", () => {
  test("of the exact amount pays the only open link, at the time of its block", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units, description: "Two coffees" });
    const txHash = await pay(lab, payer, merchant.address, units);
    await settled(lab);
    const { timeS } = await headOf(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({
      ...{ status: "PAID", exception: "NONE", paidAt: new Date(timeS * 1000) },
    });
    expect(await historyOf(txHash)).toMatchObject([
      {
        ...{ type: "PAYMENT_LINK", status: "CONFIRMED", amountUnits: units, linkId, counterparty: payer },
        ...{ description: "Two coffees", logIndex: 0, detectedAt: new Date(timeS * 1000) },
        ...{ confirmedAt: new Date(timeS * 1000) },
      },
    ]);
  });

  test("of an amount that two open links ask for pays neither and is in the history", async () => {
    const units = freshUnits();
    const links = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
    const txHash = await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await Promise.all(links.map((id) => linkOf(lab, id)))).toMatchObject([
      { status: "ACTIVE" },
      { status: "ACTIVE" },
    ]);
    expect(await historyOf(txHash)).toMatchObject([{ type: "RECEIVE", status: "CONFIRMED", linkId: null }]);
  });

  test("one micro-USDC less or more pays nothing and sets no exception", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    await pay(lab, payer, merchant.address, units - 1n);
    await pay(lab, payer, merchant.address, units + 1n);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
  });

  test("of the same amount a second time is received money, not a second payment", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const first = await pay(lab, payer, merchant.address, units);
    const second = await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await historyOf(first)).toMatchObject([{ type: "PAYMENT_LINK", linkId }]);
    expect(await historyOf(second)).toMatchObject([{ type: "RECEIVE", linkId: null }]);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
  });

  test("pays an expired link late when it is the only candidate", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units, madeInS: -100, endsInS: -10 });
    await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "PAID_LATE" });
  });

  test("prefers the open link to an expired one, and pays neither of two expired ones", async () => {
    const units = freshUnits();
    const expired = await makeLink(lab, merchant, { units, madeInS: -100, endsInS: -10 });
    const open = await makeLink(lab, merchant, { units });
    await pay(lab, payer, merchant.address, units);
    const other = freshUnits();
    const two = [
      await makeLink(lab, merchant, { units: other, madeInS: -100, endsInS: -10 }),
      await makeLink(lab, merchant, { units: other, madeInS: -100, endsInS: -20 }),
    ];
    await pay(lab, payer, merchant.address, other);
    await settled(lab);
    expect(await linkOf(lab, open)).toMatchObject({ status: "PAID", exception: "NONE" });
    expect((await linkOf(lab, expired)).status).not.toBe("PAID");
    for (const id of two) expect((await linkOf(lab, id)).status).not.toBe("PAID");
  });

  test("mined before a link was created does not pay it", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units, madeInS: 5 });
    const txHash = await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    expect(await historyOf(txHash)).toMatchObject([{ type: "RECEIVE", linkId: null }]);
  });

  test("never pays a cancelled link", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    await lab.sql`update payment_links set status = 'CANCELLED' where id = ${linkId}`;
    await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "CANCELLED", exception: "NONE" });
  });

  test("of zero or of another token is not recorded", async () => {
    const before = await lab.sql`select count(*) from transactions`;
    await pay(lab, payer, merchant.address, 0n);
    await settled(lab);
    expect(await lab.sql`select count(*) from transactions`).toEqual(before);
  });
});

describe("one transaction", () => {
  test("pays several links of several merchants, one log each", async () => {
    const other = await makeMerchant(lab);
    const [a, b, c] = [freshUnits(), freshUnits(), freshUnits()];
    const links = [
      await makeLink(lab, merchant, { units: a }),
      await makeLink(lab, other, { units: b }),
      await makeLink(lab, merchant, { units: c }),
    ];
    const abi = parseAbi([
      "function approve(address,uint256)",
      "function transferFrom(address,address,uint256)",
    ]);
    const multicall = "0xca11bde05977b3631167028862be2a173976ca11";
    await send(
      lab,
      payer,
      USDC,
      encodeFunctionData({ abi, functionName: "approve", args: [multicall, 2n ** 100n] }),
    );
    const pulls = [
      [merchant.address, a],
      [other.address, b],
      [merchant.address, c],
    ] as const;
    const txHash = await sendBatch(
      lab,
      payer,
      pulls.map(([to, units]) => ({
        target: USDC,
        callData: encodeFunctionData({ abi, functionName: "transferFrom", args: [payer, to, units] }),
      })),
    );
    await settled(lab);
    for (const id of links) expect(await linkOf(lab, id)).toMatchObject({ status: "PAID" });
    expect(await historyOf(txHash)).toHaveLength(2);
    expect(await historyOf(txHash, other.userId)).toHaveLength(1);
  });

  test("from one user's wallet to another's is in both histories", async () => {
    const from = await makeMerchant(lab, await makePayer(lab));
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const txHash = await pay(lab, from.address, merchant.address, units);
    const itself = await pay(lab, from.address, from.address, 7n);
    await settled(lab);
    expect(await historyOf(txHash)).toMatchObject([
      { type: "PAYMENT_LINK", counterparty: from.address, linkId },
    ]);
    expect(await historyOf(txHash, from.userId)).toMatchObject([
      { type: "SEND", counterparty: merchant.address, linkId: null, amountUnits: units },
    ]);
    expect(await historyOf(itself, from.userId)).toMatchObject([{ type: "RECEIVE" }, { type: "SEND" }]);
  });
});

test("waiting requests are notified, and each change writes its event", async () => {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  const notified: string[] = [];
  const blocks: string[] = [];
  const outcome = await lab.sql.listen("outcome", (payload) => void notified.push(...payload.split(",")));
  const block = await lab.sql.listen("block", (payload) => void blocks.push(payload));
  const txHash = await pay(lab, payer, merchant.address, units);
  await settled(lab);
  const { number } = await headOf(lab);
  await until(
    "both notifications",
    async () => notified.includes(linkId) && blocks.includes(`base-sepolia:${number}`),
  );
  await outcome.unlisten();
  await block.unlisten();
  const [row] = await historyOf(txHash);
  const events = await lab.sql`
    select type from events where subject_id in (${linkId}, ${row?.id ?? ""}) order by id`;
  expect(events.map((event) => event.type)).toEqual(["transaction.confirmed", "payment_link.paid"]);
});
