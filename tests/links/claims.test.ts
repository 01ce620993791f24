import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/rpc.ts";
import { openClient } from "../api/http-client.ts";
import { type Merchant, signUp } from "../api/sign-up.ts";
import { type MerchantWorld, startMerchantWorld } from "./merchant-world.ts";
import { mine, newPayer, randomHash, sendUsdc, setAutomine } from "./payers.ts";

let world: MerchantWorld;
let ann: Merchant;
let payer: Hex;
let rpcUrl: string;

beforeAll(async () => {
  world = await startMerchantWorld();
  rpcUrl = world.chain.rpcUrl;
  ann = await signUp(world.baseUrl);
  payer = await newPayer(rpcUrl, 10_000_000_000n);
}, 60_000);
afterAll(() => world?.stop());

const PAYER_PAGE = "/api/v1/public/payment-links";
let amountCounter = 0;

/** An amount no other link of these tests has, unless given. */
async function makeLink(
  amountUnits = BigInt(1_000_000 + ++amountCounter),
): Promise<{ id: string; amountUnits: bigint }> {
  const amount = Number(amountUnits) / 1e6;
  const { status, body } = await ann.client.post("/v1/payment-links", { amount, description: "Claimed" });
  expect(status).toBe(201);
  return { id: body.id, amountUnits };
}

function claim(linkId: string, transactionHash: string, clientWalletAddress: string = payer) {
  return openClient(world.baseUrl).post(`${PAYER_PAGE}/${linkId}/complete`, {
    transactionHash,
    clientWalletAddress,
  });
}

const wallet = () => ann.walletAddress as Hex;
const statusOf = async (linkId: string) =>
  (await openClient(world.baseUrl).get(`${PAYER_PAGE}/${linkId}/data`)).body.status as string;

async function waitFor<Value>(what: string, read: () => Promise<Value | undefined | false>): Promise<Value> {
  const deadline = Date.now() + 15_000;
  for (;;) {
    const value = await read();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited 15 s for ${what}`);
    await Bun.sleep(50);
  }
}
const waitForStatus = (linkId: string, status: string) =>
  waitFor(`${linkId} to be ${status}`, async () => (await statusOf(linkId)) === status);
const claimRow = async (linkId: string) =>
  (
    await world.sql<{ id: string; state: string; reason: string | null }[]>`
    select id, state, reason from claims where link_id = ${linkId}`
  )[0];

describe("what a payer sees", () => {
  test("the documented fields, and the name a merchant gave itself", async () => {
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
      recipientAddress: wallet(),
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

  test("a browser of another origin may ask first", async () => {
    const { id } = await makeLink();
    const answer = await fetch(`${world.baseUrl}${PAYER_PAGE}/${id}/complete`, { method: "OPTIONS" });
    expect(answer.status).toBe(204);
    expect(answer.headers.get("access-control-allow-methods")).toContain("POST");
  });
});

describe("a claim", () => {
  test("of an unknown hash is taken, and the merchant sees it pending", async () => {
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

  test("again is the same answer and no second row, in any case of letters", async () => {
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

  test("tells which of two equal links a transfer paid", async () => {
    const [one, two] = [await makeLink(), await makeLink(BigInt(1_000_000 + amountCounter))];
    const hash = await sendUsdc(rpcUrl, payer, wallet(), one.amountUnits);
    await waitFor("the transfer in the history", async () => {
      const { body } = await ann.client.get(`/v1/transactions?search=${hash}`);
      return body.data.transactions[0]?.type === "RECEIVE";
    });
    expect((await claim(two.id, hash)).status).toBe(200);
    await mine(rpcUrl, 2);
    await waitForStatus(two.id, "PAID");
    expect(await statusOf(one.id)).toBe("ACTIVE");
    expect((await claimRow(two.id))?.state).toBe("MATCHED");
    const { body } = await ann.client.get(`/v1/transactions?search=${hash}`);
    expect(body.data.pagination.total).toBe(1);
    expect(body.data.transactions[0]).toMatchObject({ type: "PAYMENT_LINK", metadata: { linkId: two.id } });
    // counted for two, so not for one
    const other = await claim(one.id, hash);
    expect([other.status, other.body.error.details.issue]).toEqual([409, "counted_elsewhere"]);
    expect(await statusOf(one.id)).toBe("ACTIVE");
    // and the same claim again is still answered
    expect((await claim(two.id, hash)).body).toEqual({ success: true, linkId: two.id, status: "PAID" });
  }, 30_000);

  test("made before the transaction is mined is settled when it is", async () => {
    const [one, two] = [await makeLink(), await makeLink(BigInt(1_000_000 + amountCounter))];
    await setAutomine(rpcUrl, false);
    try {
      const hash = await sendUsdc(rpcUrl, payer, wallet(), one.amountUnits);
      expect((await claim(one.id, hash)).status).toBe(200);
      await Bun.sleep(3_000); // the job has looked at a transaction that waits
      expect((await claimRow(one.id))?.state).toBe("OPEN");
      await mine(rpcUrl, 3);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitForStatus(one.id, "PAID");
    expect(await statusOf(two.id)).toBe("ACTIVE");
  }, 30_000);

  test("by a stranger with another address takes no place", async () => {
    const [one, two] = [await makeLink(), await makeLink(BigInt(1_000_000 + amountCounter))];
    await setAutomine(rpcUrl, false);
    try {
      const hash = await sendUsdc(rpcUrl, payer, wallet(), one.amountUnits);
      expect((await claim(one.id, hash, `0x${"99".repeat(20)}`)).status).toBe(200);
      expect((await claim(one.id, hash)).status).toBe(200);
      await mine(rpcUrl, 3);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitForStatus(one.id, "PAID");
    expect(await statusOf(two.id)).toBe("ACTIVE");
  }, 30_000);

  test("of twenty links by one transfer pays exactly one", async () => {
    const units = BigInt(1_000_000 + ++amountCounter);
    const links = await Promise.all(Array.from({ length: 20 }, () => makeLink(units)));
    const hash = await sendUsdc(rpcUrl, payer, wallet(), units);
    const answers = await Promise.all(links.map(({ id }) => claim(id, hash)));
    for (const { status } of answers) expect([200, 409]).toContain(status);
    await mine(rpcUrl, 2);
    const paid = async () => {
      const rows = await world.sql<{ id: string }[]>`
        select id from payment_links where id = any(${links.map(({ id }) => id)}) and status = 'PAID'`;
      return rows.length;
    };
    await waitFor("one to be paid", async () => (await paid()) > 0);
    await Bun.sleep(1_500);
    expect(await paid()).toBe(1);
    const [sum] = await world.sql`select count(*) as n from transfers where tx_hash = ${hash} and pays`;
    expect(sum?.n).toBe(1n);
  }, 30_000);
});

describe("error: a claim of a transaction that is mined and does not pay this link", () => {
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

  test("one micro-USDC too little, and too much", async () => {
    const link = await makeLink(5_500_000n);
    await expectRefusal(link, await sendUsdc(rpcUrl, payer, wallet(), link.amountUnits - 1n));
    await expectRefusal(link, await sendUsdc(rpcUrl, payer, wallet(), link.amountUnits + 1n));
  });

  test("to another wallet", async () => {
    const link = await makeLink();
    await expectRefusal(link, await sendUsdc(rpcUrl, payer, `0x${"77".repeat(20)}`, link.amountUnits));
  });

  test("from another payer than named", async () => {
    const [link] = [await makeLink(), await makeLink(BigInt(1_000_000 + amountCounter))];
    const hash = await sendUsdc(rpcUrl, payer, wallet(), link.amountUnits);
    await expectRefusal(link, hash, `0x${"55".repeat(20)}`);
  });

  test("reverted", async () => {
    const link = await makeLink();
    const poor = await newPayer(rpcUrl, 0n);
    await expectRefusal(link, await sendUsdc(rpcUrl, poor, wallet(), link.amountUnits), poor);
  });

  test("older than the link", async () => {
    const units = BigInt(1_000_000 + ++amountCounter);
    const hash = await sendUsdc(rpcUrl, payer, wallet(), units);
    await Bun.sleep(1_100);
    await expectRefusal(await makeLink(units), hash);
  });

  test("no transfer at all", async () => {
    const link = await makeLink();
    const hash = (await callRpc(rpcUrl, "eth_sendTransaction", [
      { from: payer, to: wallet(), value: "0x1" },
    ])) as Hex;
    await expectRefusal(link, hash);
  });
});

describe("error: a claim that cannot be", () => {
  test.each(["PAID", "EXPIRED", "CANCELLED"])("of a link that is %s is 409", async (status) => {
    const link = await makeLink();
    await world.sql`
      update payment_links
      set status = ${status}, paid_at = case when ${status} = 'PAID' then now() end
      where id = ${link.id}`;
    const answer = await claim(link.id, randomHash());
    expect([answer.status, answer.body.error.details.issue]).toEqual([409, status]);
  });

  test("of a link whose time is over is 409, though no job ran", async () => {
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

describe("a claim that leads nowhere", () => {
  test("lets the link go when its lease ends, and leaves no history", async () => {
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
    // and may be made again
    expect((await claim(link.id, hash)).status).toBe(200);
    expect(await statusOf(link.id)).toBe("PENDING");
  }, 30_000);

  test("of a link whose time ran out meanwhile ends EXPIRED", async () => {
    const link = await makeLink();
    await claim(link.id, randomHash());
    await world.sql`update claims set lease_until = now() where link_id = ${link.id}`;
    await world.sql`update payment_links set expires_at = now() where id = ${link.id}`;
    await waitForStatus(link.id, "EXPIRED");
  }, 30_000);

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
  }, 30_000);

  test("whose transaction reverts is proven FAILED in the history", async () => {
    const link = await makeLink();
    const poor = await newPayer(rpcUrl, 0n);
    await setAutomine(rpcUrl, false);
    let hash: Hex;
    try {
      hash = await sendUsdc(rpcUrl, poor, wallet(), link.amountUnits);
      expect((await claim(link.id, hash, poor)).status).toBe(200);
      await mine(rpcUrl, 2);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitForStatus(link.id, "ACTIVE");
    expect(await claimRow(link.id)).toMatchObject({ state: "REJECTED", reason: "reverted" });
    const { body } = await ann.client.get(`/v1/transactions?search=${hash}`);
    expect(body.data.transactions[0]).toMatchObject({
      status: "FAILED",
      metadata: { failureReason: "reverted" },
    });
  }, 30_000);

  test("whose transaction pays too little lets the link go and tells the merchant", async () => {
    const link = await makeLink();
    await setAutomine(rpcUrl, false);
    try {
      const hash = await sendUsdc(rpcUrl, payer, wallet(), link.amountUnits - 500_000n);
      expect((await claim(link.id, hash)).status).toBe(200);
      await mine(rpcUrl, 2);
    } finally {
      await setAutomine(rpcUrl, true);
    }
    await waitForStatus(link.id, "ACTIVE");
    await waitFor("the exception", async () => {
      const { body } = await ann.client.get(`/v1/payment-links/${link.id}`);
      return body.exception === "UNDERPAID";
    });
  }, 30_000);

  test("a hundred of them do not keep a transfer from paying", async () => {
    const link = await makeLink();
    const answers = await Promise.all(Array.from({ length: 100 }, () => claim(link.id, randomHash())));
    for (const { status } of answers) expect(status).toBe(200);
    await sendUsdc(rpcUrl, payer, wallet(), link.amountUnits);
    await mine(rpcUrl, 2);
    await waitForStatus(link.id, "PAID");
  }, 30_000);
});

describe("watching a link", () => {
  test("tells the status at once and at every change, and ends when it is paid", async () => {
    const link = await makeLink();
    const response = await fetch(`${world.baseUrl}${PAYER_PAGE}/${link.id}/events`);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const seen: string[] = [];
    const reading = (async () => {
      let text = "";
      for await (const piece of response.body ?? []) {
        text += new TextDecoder().decode(piece);
        const told = [...text.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1] ?? "null"));
        seen.splice(0, seen.length, ...told.map(({ status }) => status));
      }
    })();
    await waitFor("ACTIVE", async () => seen.includes("ACTIVE"));
    await claim(link.id, randomHash());
    await waitFor("PENDING", async () => seen.includes("PENDING"));
    await sendUsdc(rpcUrl, payer, wallet(), link.amountUnits);
    await mine(rpcUrl, 2);
    await reading;
    expect(seen).toEqual(["ACTIVE", "PENDING", "PAID"]);
  }, 30_000);

  test("a client that goes away frees its place, and the service goes on", async () => {
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
