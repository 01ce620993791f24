import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { endClaim } from "../../db/links/end-claims.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import {
  amounts,
  findHistory,
  type Lab,
  linkOf,
  type Merchant,
  makeClaim,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  openLab,
  pay,
  type RunningIndexer,
  randomAddress,
  settled,
  startIndexer,
  storeClaim,
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

describe("a claim", () => {
  /** The hash of a transfer that is not mined yet: mining is paused. */
  async function claimed(links: readonly string[], units: bigint, proof?: "EOA"): Promise<Hex> {
    await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [false]);
    try {
      const txHash = await pay(lab, payer, merchant.address, units);
      for (const linkId of links)
        await makeClaim(lab, { linkId, txHash, clientAddress: payer, ...(proof ? { proof } : {}) });
      return txHash;
    } finally {
      await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [true]);
      await callRpc(lab.chain.rpcUrl, "evm_mine");
      await settled(lab);
    }
  }

  test("decides between two links of the same amount", async () => {
    const units = freshUnits();
    const links = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
    const txHash = await claimed(links.slice(1), units);
    expect(await linkOf(lab, links[1] ?? "")).toMatchObject({ status: "PAID" });
    expect(await linkOf(lab, links[0] ?? "")).toMatchObject({ status: "ACTIVE" });
    expect(await historyOf(txHash)).toMatchObject([
      { type: "PAYMENT_LINK", status: "CONFIRMED", linkId: links[1] },
    ]);
    const claims = await lab.sql`select state from claims where tx_hash = ${txHash}`;
    expect([...claims]).toEqual([{ state: "MATCHED" }]);
  });

  test("made after the block was read decides only with a proof, and leaves the ambiguous transfer unchanged", async () => {
    const units = freshUnits();
    const links = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
    const first = await pay(lab, payer, merchant.address, units);
    const second = await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await historyOf(first)).toMatchObject([{ type: "RECEIVE" }]);
    const late = { linkId: links[0] ?? "", txHash: first, clientAddress: payer };
    expect(await storeClaim(lab, late)).toMatchObject({ claim: { state: "HINT" }, proofRequired: true });
    expect(await linkOf(lab, late.linkId)).toMatchObject({ status: "ACTIVE" });
    await makeClaim(lab, { ...late, proof: "EOA" });
    await until("it is paid", async () => (await linkOf(lab, late.linkId)).status === "PAID");
    expect(await linkOf(lab, late.linkId)).toMatchObject({ settledBy: "proof" });
    expect(await historyOf(first)).toMatchObject([{ type: "PAYMENT_LINK", linkId: links[0] }]);
    // the other link is the only open one now, but was not at the block
    await mine(lab);
    await settled(lab);
    expect(await linkOf(lab, links[1] ?? "")).toMatchObject({ status: "ACTIVE" });
    expect(await historyOf(second)).toMatchObject([{ type: "RECEIVE", linkId: null, candidates: links }]);
  });

  test("with a proof, of too little or too much, sets the exception on its link and releases it", async () => {
    const units = freshUnits();
    const [low, high] = [
      await makeLink(lab, merchant, { units }),
      await makeLink(lab, merchant, { units: freshUnits() }),
    ];
    const txHash = await claimed([low], units - 5n, "EOA");
    await claimed([high], 90_000_000n, "EOA");
    expect(await linkOf(lab, low)).toMatchObject({ status: "ACTIVE", exception: "UNDERPAID" });
    expect(await linkOf(lab, high)).toMatchObject({ status: "ACTIVE", exception: "OVERPAID" });
    expect(await historyOf(txHash)).toMatchObject([
      { type: "RECEIVE", amountUnits: units - 5n, linkId: low },
    ]);
  });

  test("without a proof, of another amount, sets no exception and attributes no transfer to its link", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const txHash = await claimed([linkId], units - 5n);
    expect(await linkOf(lab, linkId)).toMatchObject({ exception: "NONE" });
    const [row] = await lab.sql`select link_id from transfers where tx_hash = ${txHash}`;
    expect(row).toEqual({ linkId: null });
    const [claim] = await lab.sql<{ id: string }[]>`select id from claims where tx_hash = ${txHash}`;
    const end = { id: claim?.id ?? "", state: "EXPIRED", reason: "other_amount", isProven: false } as const;
    await lab.sql.begin((tx) => endClaim(tx, end));
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
  });

  test("with a proof, of a link that another transfer pays first: DUPLICATE", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const stranger = await makePayer(lab);
    await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [false]);
    await pay(lab, stranger, merchant.address, units);
    await callRpc(lab.chain.rpcUrl, "evm_mine");
    const txHash = await claimed([linkId], units, "EOA");
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "DUPLICATE" });
    expect(await historyOf(txHash)).toMatchObject([{ type: "RECEIVE", linkId }]);
  });

  test("by an address that is not the sender has no effect and does not delay the real payment", async () => {
    const [units, other] = [freshUnits(), freshUnits()];
    const [honest, bogus] = [
      await makeLink(lab, merchant, { units }),
      await makeLink(lab, merchant, { units: other }),
    ];
    await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [false]);
    const txHash = await pay(lab, payer, merchant.address, units);
    await makeClaim(lab, { linkId: bogus, txHash, clientAddress: payer });
    await makeClaim(lab, { linkId: honest, txHash, clientAddress: randomAddress() });
    await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [true]);
    await callRpc(lab.chain.rpcUrl, "evm_mine");
    await settled(lab);
    expect(await linkOf(lab, honest)).toMatchObject({ status: "PAID", exception: "NONE" });
    expect(await linkOf(lab, bogus)).toMatchObject({ exception: "NONE" });
    // contested claims hold nothing
    expect(await linkOf(lab, bogus)).toMatchObject({ status: "ACTIVE" });
  });

  test("does not hold its link against another payer's transfer", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    const txHash: Hex = `0x${"ab".repeat(32)}`;
    await makeClaim(lab, { linkId, txHash, clientAddress: randomAddress() });
    await pay(lab, payer, merchant.address, units);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
  });

  test("two links claimed with proofs by one batch of two equal transfers are both paid", async () => {
    const units = freshUnits();
    const links = [await makeLink(lab, merchant, { units }), await makeLink(lab, merchant, { units })];
    const multicall: Hex = "0xca11bde05977b3631167028862be2a173976ca11";
    await pay(lab, payer, multicall, units * 2n);
    await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [false]);
    const call = { target: USDC, callData: encodeTransfer(merchant.address, units) };
    const txHash = await sendBatch(lab, payer, [call, call]);
    for (const linkId of links)
      await makeClaim(lab, { linkId, txHash, clientAddress: multicall, proof: "CONTRACT" });
    await callRpc(lab.chain.rpcUrl, "evm_setAutomine", [true]);
    await callRpc(lab.chain.rpcUrl, "evm_mine");
    await settled(lab);
    for (const id of links)
      expect(await linkOf(lab, id)).toMatchObject({ status: "PAID", exception: "NONE" });
  });
});
