import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { claimTypedData } from "../../core/domain/claim-proof.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openClient } from "../support/http-client.ts";
import { PAYER_PAGE, type PayerSide, startPayerSide, waitFor } from "./payer-side.ts";
import { mine, newPayer, newProvingPayer, randomHash, sendUsdc, setAutomine, submitUsdc } from "./payers.ts";

let side: PayerSide;
let world: PayerSide["world"];
let rpcUrl: PayerSide["rpcUrl"];
let ann: PayerSide["ann"];
let wallet: PayerSide["wallet"];
let payer: PayerSide["payer"];
let makeLink: PayerSide["makeLink"];
let claim: PayerSide["claim"];
let statusOf: PayerSide["statusOf"];
let waitForStatus: PayerSide["waitForStatus"];
let claimRow: PayerSide["claimRow"];

beforeAll(async () => {
  side = await startPayerSide();
  ({ world, rpcUrl, ann, wallet, payer, makeLink, claim, statusOf, waitForStatus, claimRow } = side);
}, 120_000);
afterAll(() => side?.world.stop());

describe("a claim without a payment", () => {
  test("releases the link when its lease ends, and leaves no history", async () => {
    const link = await makeLink();
    const hash = randomHash();
    await claim(link.id, hash);
    await world.sql`update claims set lease_until = now() where link_id = ${link.id}`;
    await waitForStatus(link.id, "ACTIVE");
    expect(await claimRow(link.id)).toMatchObject({ state: "EXPIRED", reason: "not_found" });
    expect((await ann.client.get(`/v1/transactions?search=${hash}`)).body.data.pagination.total).toBe(0);
    const events = await world.sql`select type from events where subject_id = ${link.id} order by id`;
    expect(events.map((event) => event.type)).toEqual([
      "payment_link.created",
      "payment_link.pending",
      "payment_link.released",
    ]);
    // and may be repeated
    expect((await claim(link.id, hash)).status).toBe(200);
    expect(await statusOf(link.id)).toBe("PENDING");
  }, 120_000);

  test("for a link that expired in between ends as EXPIRED", async () => {
    const link = await makeLink();
    await claim(link.id, randomHash());
    await world.sql`update claims set lease_until = now() where link_id = ${link.id}`;
    await world.sql`update payment_links set expires_at = now() where id = ${link.id}`;
    await waitForStatus(link.id, "EXPIRED");
  }, 120_000);

  test("keeps the link while another claim or a payment holds it", async () => {
    const link = await makeLink();
    await claim(link.id, randomHash());
    await claim(link.id, randomHash());
    await world.sql`
      update claims set lease_until = now() where id = (select id from claims where link_id = ${link.id} order by id limit 1)`;
    await waitFor("one to end", async () => {
      const rows = await world.sql`select 1 from claims where link_id = ${link.id} and state = 'EXPIRED'`;
      return rows.length === 1;
    });
    expect(await statusOf(link.id)).toBe("PENDING");
  }, 120_000);

  test("whose transaction reverts is FAILED in the history", async () => {
    const link = await makeLink();
    const poor = await newPayer(rpcUrl, 0n);
    await setAutomine(rpcUrl, false);
    let hash: Hex;
    try {
      hash = await submitUsdc(rpcUrl, poor, wallet, link.amountUnits);
      expect((await claim(link.id, hash, poor)).status).toBe(200);
      await mine(rpcUrl, 2);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitForStatus(link.id, "ACTIVE");
    expect(await claimRow(link.id)).toMatchObject({ state: "EXPIRED", reason: "reverted" });
    const { body } = await ann.client.get(`/v1/transactions?search=${hash}`);
    expect(body.data.transactions[0]).toMatchObject({
      status: "FAILED",
      metadata: { failureReason: "reverted" },
    });
  }, 120_000);

  test("whose transaction pays too little releases the link, and is recorded for the merchant once its sender signs", async () => {
    const link = await makeLink();
    const prover = await newProvingPayer(rpcUrl, link.amountUnits);
    const exceptionOf = async () => (await ann.client.get(`/v1/payment-links/${link.id}`)).body.exception;
    let hash: Hex;
    await setAutomine(rpcUrl, false);
    try {
      hash = await submitUsdc(rpcUrl, prover.lower, wallet, link.amountUnits - 500_000n);
      expect((await claim(link.id, hash, prover.lower)).status).toBe(200);
      await mine(rpcUrl, 2);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitForStatus(link.id, "ACTIVE");
    expect(await claimRow(link.id)).toMatchObject({ state: "EXPIRED", reason: "other_amount" });
    expect(await exceptionOf()).toBe("NONE");
    const { domain, ...typedData } = claimTypedData({
      ...{ linkId: link.id, network: "base-sepolia", recipient: wallet, transactionHash: hash },
      merchantName: ann.email.split("@")[0] ?? "",
      ...{ amountUnits: link.amountUnits, host: new URL(world.baseUrl).host },
    });
    const signature = await prover.signTypedData({
      ...typedData,
      domain: { ...domain, chainId: BigInt(domain.chainId) },
    });
    const proven = await openClient(world.baseUrl).post(`${PAYER_PAGE}/${link.id}/complete`, {
      ...{ transactionHash: hash, clientWalletAddress: prover.lower, signature },
    });
    expect(proven.status).toBe(200);
    await waitFor("the exception", async () => (await exceptionOf()) === "UNDERPAID");
    await waitForStatus(link.id, "ACTIVE");
  }, 120_000);

  test("does not prevent a transfer from paying, even a hundred times", async () => {
    const link = await makeLink();
    const answers = await Promise.all(Array.from({ length: 100 }, () => claim(link.id, randomHash())));
    for (const { status } of answers) expect(status).toBe(200);
    await sendUsdc(rpcUrl, payer, wallet, link.amountUnits);
    await mine(rpcUrl, 2);
    await waitForStatus(link.id, "PAID");
  }, 120_000);
});

describe("watching a link", () => {
  test("streams the status immediately and at every change, and ends when it is paid", async () => {
    const link = await makeLink();
    const response = await fetch(`${world.baseUrl}${PAYER_PAGE}/${link.id}/events`);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const seen: string[] = [];
    const reading = (async () => {
      let text = "";
      for await (const piece of response.body ?? []) {
        text += new TextDecoder().decode(piece);
        const messages = [...text.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1] ?? "null"));
        seen.splice(0, seen.length, ...messages.map(({ status }) => status));
      }
    })();
    await waitFor("ACTIVE", async () => seen.includes("ACTIVE"));
    await claim(link.id, randomHash());
    await waitFor("PENDING", async () => seen.includes("PENDING"));
    await sendUsdc(rpcUrl, payer, wallet, link.amountUnits);
    await mine(rpcUrl, 2);
    await reading;
    expect(seen).toEqual(["ACTIVE", "PENDING", "PAID"]);
  }, 120_000);

  test("a client that disconnects frees its slot, and the service continues", async () => {
    const link = await makeLink();
    for (let n = 0; n < 30; n++) {
      const stop = new AbortController();
      const response = await fetch(`${world.baseUrl}${PAYER_PAGE}/${link.id}/events`, {
        signal: stop.signal,
      });
      await response.body?.getReader().read();
      stop.abort();
    }
    expect(await statusOf(link.id)).toBe("ACTIVE");
  });

  test("error: an unknown link is 404", async () => {
    expect((await fetch(`${world.baseUrl}${PAYER_PAGE}/link_AAAAAAAAAAAAAAAAAAAAAA/events`)).status).toBe(
      404,
    );
  });
});
