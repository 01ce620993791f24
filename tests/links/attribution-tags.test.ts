/** Link tags appended to a plain transfer's calldata and in an authorization's nonce. Every link here has another open link of the same price. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeFunctionData, erc20Abi, multicall3Abi } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type Payer, signPayment } from "../support/payer.ts";
import { signUp } from "../support/sign-up.ts";
import { broadcastAsStranger } from "../support/stranger.ts";
import {
  broadcast,
  dataOf,
  type EvidenceSide,
  expectReceived,
  historyOf,
  indexed,
  linkOf,
  makeLinks,
  makePerson,
  makeTwins,
  nextUnits,
  pay,
  show,
  signCall,
  startEvidenceSide,
  statusOf,
  USDC,
  waitForLink,
} from "./evidence-side.ts";

setDefaultTimeout(120_000);

let side: EvidenceSide;
let payer: Payer;

beforeAll(async () => {
  side = await startEvidenceSide();
  payer = await makePerson(side);
});
afterAll(() => side?.stop());

/** The public tag's digits. */
async function tagOf(linkId: string): Promise<string> {
  const { tag } = (await dataOf(side, linkId)).body;
  expect(tag).toMatch(/^0x[0-9a-f]{32}$/);
  return tag.slice(2);
}

async function expectPaidByTag(meant: string, twin: string, hash: Hex): Promise<void> {
  await waitForLink(side, meant, { status: "PAID", settledBy: "tag", exception: "NONE" });
  expect((await dataOf(side, meant)).body).toMatchObject({ status: "PAID", settledBy: "tag" });
  expect(await historyOf(side, hash)).toMatchObject([
    { type: "PAYMENT_LINK", linkId: meant, settledBy: "tag", candidates: null },
  ]);
  expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", exception: "NONE", settledBy: null });
}

async function expectAmbiguous(meant: string, twin: string, hash: Hex): Promise<void> {
  await expectReceived(side, hash, [meant, twin]);
  expect([await statusOf(side, meant), await statusOf(side, twin)]).toEqual(["ACTIVE", "ACTIVE"]);
}

describe("appended to the calldata of a transfer", () => {
  const inside: [string, (tag: string) => string][] = [
    ["exactly its 16 bytes", (tag) => tag],
    ["its 16 bytes and more", (tag) => `${tag}${"ff".repeat(20)}`],
  ];
  test.each(inside)("%s identify and pay the link", async (_, tailOf) => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units, tail: tailOf(await tagOf(meant)) });
    await expectPaidByTag(meant, twin, hash);
  });

  const outside: [string, (tag: string) => string][] = [
    ["15 of its bytes", (tag) => tag.slice(0, 30)],
    ["another last byte", (tag) => `${tag.slice(0, 30)}${tag.endsWith("00") ? "01" : "00"}`],
    ["a byte before it", (tag) => `00${tag}`],
  ];
  test.each(outside)("%s: no link is identified", async (_, tailOf) => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await pay(side, payer, { units, tail: tailOf(await tagOf(meant)) });
    await expectAmbiguous(meant, twin, hash);
  });

  test("of transferFrom: no link is identified", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const approval = encodeFunctionData({
      abi: erc20Abi,
      functionName: "approve",
      args: [payer.address, units],
    });
    await broadcast(side, await signCall(side, payer, { to: USDC, data: approval }));
    const call = encodeFunctionData({
      abi: erc20Abi,
      functionName: "transferFrom",
      args: [payer.address, side.wallet, units],
    });
    const data: Hex = `${call}${await tagOf(meant)}`;
    const hash = await broadcast(side, await signCall(side, payer, { to: USDC, data }));
    await indexed(side);
    await expectAmbiguous(meant, twin, hash);
  });

  test("of a call forwarded by a contract: no link is identified", async () => {
    const { meant, twin, units } = await makeTwins(side);
    // forwards its calldata to the token: the transfer is from the contract, which anybody can call
    const forwarder: Hex = `0x${"f0".repeat(20)}`;
    const code = `0x36600060003760006000366000600073${USDC.slice(2)}5af150`;
    await callRpc(side.rpcUrl, "anvil_setCode", [forwarder, code]);
    await fundUsdc(side.rpcUrl, forwarder, units);
    const data: Hex = `${encodeTransfer(side.wallet, units)}${await tagOf(meant)}`;
    const hash = await broadcast(side, await signCall(side, payer, { to: forwarder, data }));
    await indexed(side);
    await expectAmbiguous(meant, twin, hash);
  });

  test("of a call in the payer's own batch (EIP-7702): no link is identified", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const batcher = await makePerson(side);
    const { chainId, nonce } = { chainId: 84532, nonce: 1 };
    const account = privateKeyToAccount(batcher.privateKey);
    const authorization = await account.signAuthorization({ address: CONTRACTS.multicall3, chainId, nonce });
    const callData: Hex = `${encodeTransfer(side.wallet, units)}${await tagOf(meant)}`;
    const data = encodeFunctionData({
      abi: multicall3Abi,
      functionName: "aggregate3",
      args: [[{ target: USDC, allowFailure: false, callData }]],
    });
    const raw = await account.signTransaction({
      ...{ type: "eip7702", chainId, nonce: 0, gas: 500_000n, to: batcher.address, data },
      ...{ maxFeePerGas: 20n * 10n ** 9n, maxPriorityFeePerGas: 1n, authorizationList: [authorization] },
    });
    const hash = (await callRpc(side.rpcUrl, "eth_sendRawTransaction", [raw])) as Hex;
    await indexed(side);
    const [transfer] = await side.sql<{ from: Hex }[]>`
      select from_address as from from transfers where tx_hash = ${hash}`;
    expect(transfer?.from).toBe(batcher.address);
    await expectAmbiguous(meant, twin, hash);
  });

  test("that names another wallet's link counts for neither wallet", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const bob = await signUp(side.service.baseUrl);
    const [foreign = ""] = await makeLinks({ ann: bob }, 1, units);
    const tail = await tagOf(foreign);
    await expectAmbiguous(meant, twin, await pay(side, payer, { units, tail }));
    expect(await statusOf(side, foreign)).toBe("ACTIVE");
    // and does not keep a transfer from the only link it fits
    const [only = ""] = await makeLinks(side, 1);
    await pay(side, payer, { units: (await linkOf(side, only)).amountUnits, tail });
    await waitForLink(side, only, { status: "PAID", settledBy: "amount" });
  });

  test("distinguishes the links of several transfers in one block", async () => {
    const units = nextUnits();
    const links = await makeLinks(side, 3, units);
    await callRpc(side.rpcUrl, "evm_setAutomine", [false]);
    try {
      for (const linkId of links) {
        const person = await makePerson(side);
        const data: Hex = `${encodeTransfer(side.wallet, units)}${await tagOf(linkId)}`;
        await broadcast(side, await signCall(side, person, { to: USDC, data }));
      }
      await callRpc(side.rpcUrl, "evm_mine", []);
    } finally {
      await callRpc(side.rpcUrl, "evm_setAutomine", [true]);
    }
    for (const linkId of links) await waitForLink(side, linkId, { status: "PAID", settledBy: "tag" });
  });
});

describe("of a link that is closed or has another amount", () => {
  /** The transfer would fit the other link alone: the tag prevents that. */
  async function payOver(meant: string, tail: string, units: bigint): Promise<Hex> {
    const hash = await pay(side, payer, { units, tail });
    expect(await historyOf(side, hash)).toMatchObject([
      { linkId: meant, settledBy: "tag", candidates: null },
    ]);
    return hash;
  }

  test("CANCELLED: attributed to it, stays cancelled; the other link is not paid", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const tail = await tagOf(meant);
    expect((await side.ann.client.post(`/v1/payment-links/${meant}/cancel`)).status).toBe(200);
    const hash = await payOver(meant, tail, units);
    expect(await historyOf(side, hash)).toMatchObject([{ type: "RECEIVE" }]);
    expect(await linkOf(side, meant)).toMatchObject({ status: "CANCELLED", settledBy: null });
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  test("EXPIRED: PAID late; the other link is not paid", async () => {
    const { meant, twin, units } = await makeTwins(side);
    await side.sql`update payment_links set expires_at = now() - interval '2 seconds' where id = ${meant}`;
    expect(await statusOf(side, meant)).toBe("EXPIRED");
    await payOver(meant, await tagOf(meant), units);
    await waitForLink(side, meant, { status: "PAID", exception: "PAID_LATE", settledBy: "tag" });
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  test("PAID: a duplicate of it; the other link is not paid", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const tail = await tagOf(meant);
    await expectPaidByTag(meant, twin, await pay(side, payer, { units, tail }));
    const hash = await payOver(meant, tail, units);
    await waitForLink(side, meant, { status: "PAID", exception: "DUPLICATE", settledBy: "tag" });
    expect(await historyOf(side, hash)).toMatchObject([{ type: "RECEIVE", linkId: meant }]);
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  const others: [string, bigint, string][] = [
    ["less", -1n, "UNDERPAID"],
    // ends in 0, as no unique amount does
    ["more", 10n, "OVERPAID"],
  ];
  test.each(others)(
    "ACTIVE, and of an amount that is %s: attributed, but does not pay",
    async (_, more, exception) => {
      const { meant, twin, units } = await makeTwins(side);
      await payOver(meant, await tagOf(meant), units + more);
      await waitForLink(side, meant, { status: "ACTIVE", exception, settledBy: null });
      expect(await linkOf(side, twin)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
    },
  );
});

describe("in an authorization's nonce", () => {
  const authorize = async (tagged: string, units: bigint, change = (nonce: string) => nonce) => {
    const random = crypto.getRandomValues(new Uint8Array(16));
    const nonce: Hex = `0x${change(`${await tagOf(tagged)}${Buffer.from(random).toString("hex")}`)}`;
    return signPayment(payer, { to: side.wallet, amountUnits: units, nonce });
  };

  test("executed by a third party and never submitted to us: pays the link", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await broadcastAsStranger(side.rpcUrl, await authorize(meant, units));
    await expectPaidByTag(meant, twin, hash);
    expect((await side.sql`select 1 from payments where link_id = ${meant}`).length).toBe(0);
  });

  test("executed by a third party, then submitted: the link reports that it is paid, another link 409", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const payment = await authorize(meant, units);
    const hash = await broadcastAsStranger(side.rpcUrl, payment);
    await expectPaidByTag(meant, twin, hash);
    const own = await show(side, meant, payment);
    expect(own.body.txHash).toBe(hash);
    const foreign = await show(side, twin, payment);
    expect([foreign.status, foreign.body.error]).toEqual([409, "NONCE_USED"]);
    await expectPaidByTag(meant, twin, hash);
  });

  test("relayed by us: pays the link it was submitted to", async () => {
    const { meant, twin, units } = await makeTwins(side);
    expect((await show(side, meant, await authorize(meant, units))).status).toBe(200);
    await waitForLink(side, meant, { status: "PAID", settledBy: "authorization" });
    expect(await statusOf(side, twin)).toBe("ACTIVE");
  });

  const outside: [string, (nonce: string) => string][] = [
    ["its second half", (nonce) => `${nonce.slice(32)}${nonce.slice(0, 32)}`],
    [
      "15 of its bytes",
      (nonce) => `${nonce.slice(0, 30)}${nonce.slice(30, 32) === "00" ? "01" : "00"}${nonce.slice(32)}`,
    ],
  ];
  test.each(outside)("%s: no link is identified", async (_, change) => {
    const { meant, twin, units } = await makeTwins(side);
    const hash = await broadcastAsStranger(side.rpcUrl, await authorize(meant, units, change));
    await indexed(side);
    await expectAmbiguous(meant, twin, hash);
  });

  test("of another wallet's link: pays neither, and x402 refuses it here", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const bob = await signUp(side.service.baseUrl);
    const [foreign = ""] = await makeLinks({ ann: bob }, 1, units);
    const payment = await authorize(foreign, units);
    const shown = await show(side, meant, payment);
    expect([shown.status, shown.body.error]).toEqual([409, "NONCE_USED"]);
    const hash = await broadcastAsStranger(side.rpcUrl, payment);
    await indexed(side);
    await expectAmbiguous(meant, twin, hash);
    expect(await statusOf(side, foreign)).toBe("ACTIVE");
  });
});

test("a payment of a reusable link that got too little is listed among the links that need attention", async () => {
  const { client } = side.ann;
  const terms = { amount: null, minAmount: 1, maxAmount: 10, maxPayments: null, description: "Tip" };
  const parentId = (await client.post("/v1/payment-links", terms)).body.id;
  const opened = await client.post(`/api/v1/public/payment-links/${parentId}/uses`, { amount: 8 });
  expect(opened.status).toBe(201);
  const use = opened.body.linkId;
  await pay(side, payer, { units: 5_000_000n, tail: await tagOf(use) });
  await waitForLink(side, use, { status: "ACTIVE", exception: "UNDERPAID" });
  const read = async (query: string) => (await client.get(`/v1/payment-links?exception=any${query}`)).body;
  for (const query of ["", "&status=ACTIVE"]) {
    const { links, totalCount } = await read(query);
    const ids = links.map(({ id }: { id: string }) => id);
    expect(ids).toContain(use);
    expect(totalCount).toBe(ids.length);
    expect(links[ids.indexOf(use)]).toMatchObject({ parentId, exception: "UNDERPAID", amount: 8 });
  }
  expect((await read("&status=PAID")).links.map(({ id }: { id: string }) => id)).not.toContain(use);
});
