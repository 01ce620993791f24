import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { openClient } from "../support/http-client.ts";
import { PAYER_PAGE, type PayerSide, startPayerSide, waitFor } from "./payer-side.ts";
import {
  mine,
  newPayer,
  newProvingPayer,
  randomHash,
  sendUsdc,
  setAutomine,
  submitUsdc,
  waitUntilMined,
} from "./payers.ts";

let side: PayerSide;
let world: PayerSide["world"];
let rpcUrl: PayerSide["rpcUrl"];
let ann: PayerSide["ann"];
let wallet: PayerSide["wallet"];
let payer: PayerSide["payer"];
let makeLink: PayerSide["makeLink"];
let claim: PayerSide["claim"];
let prove: PayerSide["prove"];
let statusOf: PayerSide["statusOf"];
let waitForStatus: PayerSide["waitForStatus"];
let claimRow: PayerSide["claimRow"];

beforeAll(async () => {
  side = await startPayerSide();
  ({ world, rpcUrl, ann, wallet, payer, makeLink, claim, prove, statusOf, waitForStatus, claimRow } = side);
}, 120_000);
afterAll(() => side?.world.stop());

describe("public link data", () => {
  test("has the documented fields, and the name a merchant chose", async () => {
    const { id } = await makeLink(12_340_000n);
    const { status, body, headers } = await openClient(world.baseUrl).get(`${PAYER_PAGE}/${id}/data`);
    expect(status).toBe(200);
    expect(headers.get("access-control-allow-origin")).toBe("*");
    expect(body).toMatchObject({
      linkId: id,
      merchantName: ann.email.split("@")[0],
      amount: 12.34,
      currency: "USDC",
      network: "base-sepolia",
      recipientAddress: wallet,
      description: "Claimed",
      status: "ACTIVE",
    });
    expect(Date.parse(body.expiresAt)).toBeGreaterThan(Date.now());
    expect(JSON.stringify(body)).not.toContain(ann.email);
    expect(JSON.stringify(body)).not.toContain(ann.userId);
    await world.sql`update users set display_name = 'Ann & Söhne' where id = ${ann.userId}`;
    expect((await openClient(world.baseUrl).get(`${PAYER_PAGE}/${id}/data`)).body.merchantName).toBe(
      "Ann & Söhne",
    );
  });

  test("error: an unknown or malformed id is 404, with CORS", async () => {
    for (const id of ["link_AAAAAAAAAAAAAAAAAAAAAA", "x", "%00", "link_"]) {
      const answer = await openClient(world.baseUrl).get(`${PAYER_PAGE}/${id}/data`);
      expect(answer.status).toBe(404);
      expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    }
  });

  test("a browser of another origin may send a preflight request", async () => {
    const { id } = await makeLink();
    const answer = await fetch(`${world.baseUrl}${PAYER_PAGE}/${id}/complete`, { method: "OPTIONS" });
    expect(answer.status).toBe(204);
    expect(answer.headers.get("access-control-allow-methods")).toContain("POST");
  });
});

describe("a claim", () => {
  test("of an unknown hash is accepted, and the merchant sees it pending", async () => {
    const link = await makeLink();
    const hash = randomHash();
    const { status, body } = await claim(link.id, hash);
    expect([status, body]).toEqual([200, { success: true, linkId: link.id, status: "PENDING" }]);
    expect(await statusOf(link.id)).toBe("PENDING");
    const { body: list } = await ann.client.get(`/v1/transactions?search=${hash}`);
    expect(list.data.transactions[0]).toMatchObject({
      type: "PAYMENT_LINK",
      status: "PENDING",
      clientWalletAddress: payer,
      transactionHash: hash,
      blockNumber: null,
      metadata: { linkId: link.id },
    });
  });

  test("repeated gets the same answer and no second row, regardless of letter case", async () => {
    const link = await makeLink();
    const hash = randomHash();
    const answers = await Promise.all([
      claim(link.id, hash),
      claim(link.id, hash.toUpperCase().replace("0X", "0x")),
      claim(link.id, hash, payer.toUpperCase().replace("0X", "0x")),
    ]);
    for (const { status, body } of answers)
      expect([status, body]).toEqual([200, { success: true, linkId: link.id, status: "PENDING" }]);
    const rows = await world.sql`select 1 from claims where link_id = ${link.id}`;
    expect(rows.length).toBe(1);
  });

  test("after the block decides between two equal links only with the sender's signature", async () => {
    const [one, two] = [await makeLink(), await makeLink("same")];
    const prover = await newProvingPayer(rpcUrl, one.amountUnits);
    const hash = await sendUsdc(rpcUrl, prover.lower, wallet, one.amountUnits);
    await waitFor("the transfer in the history", async () => {
      const { body } = await ann.client.get(`/v1/transactions?search=${hash}`);
      return body.data.transactions[0]?.type === "RECEIVE";
    });
    const late = await claim(two.id, hash, prover.lower);
    expect([late.status, late.body]).toMatchObject([200, { status: "ACTIVE", proofRequired: true }]);
    expect((await claimRow(two.id))?.state).toBe("HINT");
    expect((await prove(two.id, hash, prover)).status).toBe(200);
    await mine(rpcUrl, 2);
    await waitForStatus(two.id, "PAID");
    expect(await statusOf(one.id)).toBe("ACTIVE");
    expect((await claimRow(two.id))?.state).toBe("MATCHED");
    const { body } = await ann.client.get(`/v1/transactions?search=${hash}`);
    expect(body.data.pagination.total).toBe(1);
    expect(body.data.transactions[0]).toMatchObject({ type: "PAYMENT_LINK", metadata: { linkId: two.id } });
    // counted for two, so not for one
    const other = await claim(one.id, hash, prover.lower);
    expect([other.status, other.body.error.details.issue]).toEqual([409, "counted_elsewhere"]);
    expect(await statusOf(one.id)).toBe("ACTIVE");
    // and the same claim again is still answered
    const again = await claim(two.id, hash, prover.lower);
    expect(again.body).toEqual({ success: true, linkId: two.id, status: "PAID" });
  }, 120_000);

  test("made before the transaction is mined is settled when it is", async () => {
    const [one, two] = [await makeLink(), await makeLink("same")];
    await setAutomine(rpcUrl, false);
    try {
      const hash = await submitUsdc(rpcUrl, payer, wallet, one.amountUnits);
      expect((await claim(one.id, hash)).status).toBe(200);
      await waitFor("the job to have seen a transaction that waits", async () => {
        const [row] = await world.sql<
          { looks: number }[]
        >`select looks from claims where link_id = ${one.id}`;
        return (row?.looks ?? 0) > 0;
      });
      expect((await claimRow(one.id))?.state).toBe("OPEN");
      await mine(rpcUrl, 3);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitForStatus(one.id, "PAID");
    expect(await statusOf(two.id)).toBe("ACTIVE");
  }, 120_000);

  test("by a third party with another address does not block the payer's", async () => {
    const [one, two] = [await makeLink(), await makeLink("same")];
    await setAutomine(rpcUrl, false);
    try {
      const hash = await submitUsdc(rpcUrl, payer, wallet, one.amountUnits);
      expect((await claim(one.id, hash, `0x${"99".repeat(20)}`)).status).toBe(200);
      expect((await claim(one.id, hash)).status).toBe(200);
      await mine(rpcUrl, 3);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitForStatus(one.id, "PAID");
    expect(await statusOf(two.id)).toBe("ACTIVE");
  }, 120_000);

  test("for twenty links of one transfer pays and holds none of them, before or after the block", async () => {
    const units = 3_141_592n;
    const links = await Promise.all(Array.from({ length: 20 }, () => makeLink(units)));
    const ids = links.map(({ id }) => id);
    await setAutomine(rpcUrl, false);
    let hash: Hex;
    try {
      hash = await submitUsdc(rpcUrl, payer, wallet, units);
      const answers = await Promise.all(ids.map((id) => claim(id, hash)));
      for (const { status } of answers) expect(status).toBe(200);
      await mine(rpcUrl, 3);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitFor("the transfer in the history", async () => {
      const { body } = await ann.client.get(`/v1/transactions?search=${hash}`);
      const [row] = body.data.transactions;
      return row?.type === "RECEIVE" && row.status === "CONFIRMED";
    });
    const again = await Promise.all(ids.map((id) => claim(id, hash)));
    for (const { status, body } of again)
      expect([status, body]).toMatchObject([200, { status: "ACTIVE", proofRequired: true }]);
    const rows = await world.sql<{ status: string; settledBy: string | null }[]>`
      select distinct status, settled_by from payment_links where id = any(${ids})`;
    expect([...rows]).toEqual([{ status: "ACTIVE", settledBy: null }]);
    const [transfer] = await world.sql<{ linkId: string | null; candidates: string[] }[]>`
      select link_id, candidates from transfers where tx_hash = ${hash}`;
    expect(transfer?.linkId).toBeNull();
    expect(transfer?.candidates.toSorted()).toEqual(ids.toSorted());
  }, 120_000);
});

describe("error: a claim of a transaction that is mined and does not pay the link", () => {
  const expectRefusal = async (link: { id: string }, hash: Hex, address: string = payer) => {
    const { status, body } = await claim(link.id, hash, address);
    expect([status, body.error.code, body.error.details]).toEqual([
      400,
      "VALIDATION_ERROR",
      { field: "transactionHash", issue: "does_not_pay_this_link" },
    ]);
    expect(await statusOf(link.id)).toBe("ACTIVE");
    expect(await claimRow(link.id)).toBeUndefined();
  };

  test("one micro-USDC too little, or too much", async () => {
    const link = await makeLink(5_500_000n);
    await expectRefusal(link, await sendUsdc(rpcUrl, payer, wallet, link.amountUnits - 1n));
    const [row] = await world.sql<{ units: bigint }[]>`
      select pay_amount_units as units from payment_links where id = ${link.id}`;
    // the larger amount is not the link's unique amount either
    expect(row?.units).not.toBe(link.amountUnits + 1n);
    await expectRefusal(link, await sendUsdc(rpcUrl, payer, wallet, link.amountUnits + 1n));
  });

  test("to another wallet", async () => {
    const link = await makeLink();
    await expectRefusal(link, await sendUsdc(rpcUrl, payer, `0x${"77".repeat(20)}`, link.amountUnits));
  });

  test("from another payer than named", async () => {
    const [link] = [await makeLink(), await makeLink("same")];
    const hash = await sendUsdc(rpcUrl, payer, wallet, link.amountUnits);
    await expectRefusal(link, hash, `0x${"55".repeat(20)}`);
  });

  test("reverted", async () => {
    const link = await makeLink();
    const poor = await newPayer(rpcUrl, 0n);
    await expectRefusal(link, await sendUsdc(rpcUrl, poor, wallet, link.amountUnits), poor);
  });

  test("older than the link", async () => {
    const units = 2_718_281n;
    const hash = await sendUsdc(rpcUrl, payer, wallet, units);
    // heights decide: a link made before the indexer has read the block does not know that it is younger
    await waitFor("the transfer in the ledger", async () => {
      const rows = await world.sql`select 1 from transfers where tx_hash = ${hash}`;
      return rows.length === 1;
    });
    const block = (await callRpc(rpcUrl, "eth_getBlockByNumber", ["latest", false])) as { timestamp: Hex };
    await waitFor("the second after its block", async () => Date.now() / 1000 >= Number(block.timestamp) + 1);
    await expectRefusal(await makeLink(units), hash);
  });

  test("no transfer at all", async () => {
    const link = await makeLink();
    const hash = (await callRpc(rpcUrl, "eth_sendTransaction", [
      { from: payer, to: wallet, value: "0x1" },
    ])) as Hex;
    await waitUntilMined(rpcUrl, hash);
    await expectRefusal(link, hash);
  });
});

describe("error: an invalid claim", () => {
  test.each(["PAID", "EXPIRED", "CANCELLED"])("of a link that is %s is 409", async (status) => {
    const link = await makeLink();
    await world.sql`
      update payment_links
      set status = ${status}, paid_at = case when ${status} = 'PAID' then now() end
      where id = ${link.id}`;
    const answer = await claim(link.id, randomHash());
    expect([answer.status, answer.body.error.details.issue]).toEqual([409, status]);
  });

  test("of a link past its expiry is 409, even before a job ran", async () => {
    const link = await makeLink();
    await world.sql`update payment_links set expires_at = now() - interval '1 second' where id = ${link.id}`;
    expect((await claim(link.id, randomHash())).status).toBe(409);
  });

  test("of an unknown link is 404", async () => {
    expect((await claim("link_AAAAAAAAAAAAAAAAAAAAAA", randomHash())).status).toBe(404);
    expect((await claim("nonsense", randomHash())).status).toBe(404);
  });

  test.each([
    [{}, "transactionHash"],
    [{ transactionHash: "0x12", clientWalletAddress: `0x${"11".repeat(20)}` }, "transactionHash"],
    [{ transactionHash: "11".repeat(32), clientWalletAddress: `0x${"11".repeat(20)}` }, "transactionHash"],
    [{ transactionHash: 5, clientWalletAddress: `0x${"11".repeat(20)}` }, "transactionHash"],
    [{ transactionHash: `0x${"11".repeat(32)}`, clientWalletAddress: "0x11" }, "clientWalletAddress"],
    [{ transactionHash: `0x${"11".repeat(32)}` }, "clientWalletAddress"],
  ])("malformed %j is 400", async (body, field) => {
    const link = await makeLink();
    const answer = await openClient(world.baseUrl).post(`${PAYER_PAGE}/${link.id}/complete`, body);
    expect([answer.status, answer.body.error.details.field]).toEqual([400, field]);
  });
});
