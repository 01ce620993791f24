/** The tag after each item of a relay of ours names the link it pays, even without the payment's row. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { encodeFunctionData, parseAbi } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { encodeAggregate3 } from "../../core/chain/multicall.ts";
import { buildPaymentsCall, type RelayItem } from "../../core/chain/relay.ts";
import { encodeTransferWithVrs } from "../../core/chain/usdc.ts";
import { linkTag, NO_LINK_TAG } from "../../core/domain/link-tag.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { callRpc, callRpcText } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import {
  amounts,
  findHistory,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  NETWORK,
  openLab,
  type RunningIndexer,
  randomAddress,
  settled,
  startIndexer,
  USDC,
} from "../support/indexer-lab.ts";
import { makeSigner, type Signer } from "../support/indexer-lab-payments.ts";
import { makePayer, signAuthorization } from "../support/payer.ts";

setDefaultTimeout(120_000);

/** Returns ERC-1271's magic value to every caller. */
const YES_SAYER = "0x631626ba7e60e01b60005260206000f3";
const [RELAYER_KEY, STRANGER_KEY] = [localRelayerKeys()[0] ?? "0x", makePayer().privateKey];

let lab: Lab;
let indexer: RunningIndexer;
let ann: Merchant;
const nextUnits = amounts();

beforeAll(async () => {
  lab = await openLab();
  ann = await makeMerchant(lab);
  const relayer = privateKeyToAccount(RELAYER_KEY).address.toLowerCase();
  await lab.sql`
    insert into relayers (network, address, next_nonce) values (${NETWORK}, ${relayer}, 0)`;
  await fundEth(lab.chain.rpcUrl, privateKeyToAccount(STRANGER_KEY).address, 10n ** 18n);
  indexer = startIndexer(lab);
});
afterAll(async () => {
  await indexer?.stop();
  await lab?.stop();
});

/** Links of one price, with their tags. */
async function makeTagged(count: number, units = nextUnits()): Promise<string[]> {
  const links: string[] = [];
  for (let index = 0; index < count; index++) {
    const id = await makeLink(lab, ann, { units });
    await lab.sql`update payment_links set tag = ${linkTag(id)} where id = ${id}`;
    links.push(id);
  }
  return links;
}

async function itemFor(linkId: string, tag: Hex = linkTag(linkId), signer?: Signer): Promise<RelayItem> {
  const payer = signer ?? (await makeSigner(lab));
  const { amountUnits } = await linkOf(lab, linkId);
  const signed = await signAuthorization(payer, { to: ann.address, value: amountUnits });
  return { ...signed, isContract: false, tag };
}

/** A contract payer with a signature of this many bytes. */
async function contractItemFor(linkId: string, signatureBytes: number): Promise<RelayItem> {
  const from = randomAddress();
  const { amountUnits: value } = await linkOf(lab, linkId);
  await callRpc(lab.chain.rpcUrl, "anvil_setCode", [from, YES_SAYER]);
  await fundUsdc(lab.chain.rpcUrl, from, value);
  const nonce: Hex = `0x${randomBytes(32).toString("hex")}`;
  const authorization = { from, to: ann.address, value, validAfter: 0n, validBefore: 2n ** 40n, nonce };
  const signature: Hex = `0x${"5a".repeat(signatureBytes)}`;
  return { isContract: true, authorization, signature, tag: linkTag(linkId) };
}

async function sendAs(privateKey: Hex, { to, data }: { to: Hex; data: Hex }): Promise<Hex> {
  const account = privateKeyToAccount(privateKey);
  const { rpcUrl } = lab.chain;
  const nonce = Number(await callRpc(rpcUrl, "eth_getTransactionCount", [account.address, "pending"]));
  const raw = await account.signTransaction({
    ...{ type: "eip1559", chainId: NETWORKS[NETWORK].chainId, nonce, gas: 1_000_000n, to, data },
    ...{ maxFeePerGas: 20n * 10n ** 9n, maxPriorityFeePerGas: 1n },
  });
  const hash = (await callRpcText(rpcUrl, "eth_sendRawTransaction", [raw])) as Hex;
  await settled(lab);
  const receipt = (await callRpc(rpcUrl, "eth_getTransactionReceipt", [hash])) as { status: Hex };
  expect(receipt.status).toBe("0x1");
  return hash;
}

const relay = (items: readonly RelayItem[], key = RELAYER_KEY) =>
  sendAs(key, buildPaymentsCall(NETWORKS[NETWORK], items));

async function expectPaid(linkId: string): Promise<void> {
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", settledBy: "tag", exception: "NONE" });
}

async function expectAmbiguous(links: readonly string[], hash: Hex): Promise<void> {
  const rows = await findHistory(lab, hash, ann.userId);
  expect(rows).toMatchObject([{ type: "RECEIVE", linkId: null }]);
  const [transfer] = await lab.sql<{ candidates: string[] }[]>`
    select candidates from transfers where tx_hash = ${hash}`;
  expect([...(transfer?.candidates ?? [])].sort()).toEqual([...links].sort());
  for (const linkId of links) expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
}

describe("a relay sent directly to the token", () => {
  test("pays the link that it names, among links of one price", async () => {
    const [meant = "", twin = ""] = await makeTagged(2);
    await relay([await itemFor(meant)]);
    await expectPaid(meant);
    expect(await linkOf(lab, twin)).toMatchObject({ status: "ACTIVE", settledBy: null });
  });

  test.each([0, 1, 32, 65, 97, 3_000])(
    "from a contract payer with %i bytes of signature also pays the link that it names",
    async (bytes) => {
      const [meant = "", twin = ""] = await makeTagged(2);
      await relay([await contractItemFor(meant, bytes)]);
      await expectPaid(meant);
      expect(await linkOf(lab, twin)).toMatchObject({ status: "ACTIVE" });
    },
  );

  test("followed by 15 bytes names no link", async () => {
    const links = await makeTagged(2);
    const item = await itemFor(links[0] ?? "");
    const { to, data } = buildPaymentsCall(NETWORKS[NETWORK], [item]);
    await expectAmbiguous(links, await sendAs(RELAYER_KEY, { to, data: data.slice(0, -2) as Hex }));
  });

  test("followed by zeros is a facilitated payment and pays no link, not even the only one of its amount", async () => {
    for (const count of [2, 1]) {
      const links = await makeTagged(count);
      const hash = await relay([await itemFor(links[0] ?? "", NO_LINK_TAG)]);
      expect(await findHistory(lab, hash, ann.userId)).toMatchObject([{ type: "RECEIVE", linkId: null }]);
      const [transfer] = await lab.sql`select candidates from transfers where tx_hash = ${hash}`;
      expect(transfer?.candidates).toBeNull();
      for (const linkId of links) expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    }
  });

  test("from an address that is not one of our relayers names no link", async () => {
    const links = await makeTagged(2);
    await expectAmbiguous(links, await relay([await itemFor(links[0] ?? "")], STRANGER_KEY));
  });
});

describe("a relay through Multicall3", () => {
  test("pays the link of each item", async () => {
    const links = await makeTagged(4);
    const [spare = "", ...meant] = links;
    await relay(await Promise.all(meant.map((linkId) => itemFor(linkId))));
    for (const linkId of meant) await expectPaid(linkId);
    expect(await linkOf(lab, spare)).toMatchObject({ status: "ACTIVE" });
  });

  test("distinguishes two authorizations of one payer", async () => {
    const payer = await makeSigner(lab);
    const [first = "", second = "", spare = ""] = await makeTagged(3);
    await relay([await itemFor(second, linkTag(second), payer), await itemFor(first, linkTag(first), payer)]);
    const rows = await lab.sql<{ linkId: string; authorizationNonce: Hex }[]>`
      select link_id, authorization_nonce from transfers where from_address = ${payer.lower} order by log_index`;
    expect(rows.map(({ linkId }) => linkId)).toEqual([second, first]);
    for (const linkId of [first, second]) await expectPaid(linkId);
    expect(await linkOf(lab, spare)).toMatchObject({ status: "ACTIVE" });
  });

  test("names no link for an item that failed", async () => {
    const [used = "", meant = "", spare = ""] = await makeTagged(3);
    const item = await itemFor(used);
    await relay([item]);
    await expectPaid(used);
    // the same authorization fails again inside the batch, with another link's tag
    await relay([{ ...item, tag: linkTag(spare) }, await itemFor(meant)]);
    await expectPaid(meant);
    expect(await linkOf(lab, spare)).toMatchObject({ status: "ACTIVE" });
    expect(await linkOf(lab, used)).toMatchObject({ exception: "NONE" });
  });

  test("from an address that is not one of our relayers names no link", async () => {
    const links = await makeTagged(2);
    const other = (await makeTagged(1))[0] ?? "";
    const items = [await itemFor(links[0] ?? ""), await itemFor(other, NO_LINK_TAG)];
    const hash = await relay(items, STRANGER_KEY);
    for (const linkId of links) expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    const rows = await lab.sql<{ linkId: string | null; settledBy: string | null }[]>`
      select link_id, settled_by from transfers where tx_hash = ${hash} order by log_index`;
    expect([...rows]).toEqual([
      { linkId: null, settledBy: null },
      { linkId: other, settledBy: "amount" },
    ]);
  });

  test("by another function than aggregate3, or with calls to another target, names no link", async () => {
    const links = await makeTagged(2);
    const { authorization, signature, tag } = await itemFor(links[0] ?? "");
    const callData: Hex = `${encodeTransferWithVrs(authorization, signature)}${tag.slice(2)}`;
    const data = encodeFunctionData({
      abi: parseAbi(["function tryAggregate(bool requireSuccess, (address target, bytes callData)[] calls)"]),
      functionName: "tryAggregate",
      args: [true, [{ target: USDC, callData }]],
    });
    await expectAmbiguous(links, await sendAs(RELAYER_KEY, { to: CONTRACTS.multicall3, data }));

    const twins = await makeTagged(2);
    const second = await itemFor(twins[0] ?? "");
    const inner =
      `${encodeTransferWithVrs(second.authorization, second.signature)}${second.tag.slice(2)}` as Hex;
    const nested = encodeAggregate3([
      { to: CONTRACTS.multicall3, data: encodeAggregate3([{ to: USDC, data: inner }]) },
    ]);
    await expectAmbiguous(twins, await sendAs(RELAYER_KEY, { to: CONTRACTS.multicall3, data: nested }));
  });
});

test("a relay to an ended link is attributed to it, and pays no other link", async () => {
  const [meant = "", twin = ""] = await makeTagged(2);
  await relay([await itemFor(meant)]);
  await expectPaid(meant);
  await relay([await itemFor(meant)]);
  expect(await linkOf(lab, meant)).toMatchObject({ status: "PAID", exception: "DUPLICATE" });
  expect(await linkOf(lab, twin)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
});
