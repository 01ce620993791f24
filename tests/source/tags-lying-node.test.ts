/** What a node says of a transaction names a link only when it makes the transaction's hash. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { privateKeyToAccount } from "viem/accounts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { callRpc, callRpcText } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { type FaultProxy, type ProxiedCall, startFaultProxy } from "../rpc/fault-proxy.ts";
import {
  amounts,
  headOf,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  NETWORK,
  openLab,
  type RunningIndexer,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { authorize, makeSigner } from "../support/indexer-lab-payments.ts";
import { makePayer } from "../support/payer.ts";

setDefaultTimeout(120_000);

type Transaction = { input: Hex; from: Hex; hash: Hex };
type Reply = { id: unknown; result?: unknown };

const RELAYER = privateKeyToAccount(localRelayerKeys()[0] ?? "0x");

let lab: Lab;
let ann: Merchant;
let liar: FaultProxy;
let honest: FaultProxy;
let indexer: RunningIndexer | undefined;
const nextUnits = amounts();

beforeAll(async () => {
  lab = await openLab();
  liar = startFaultProxy(lab.chain.rpcUrl);
  honest = startFaultProxy(lab.chain.rpcUrl);
  ann = await makeMerchant(lab);
  await lab.sql`
    insert into relayers (network, address, next_nonce) values (${NETWORK}, ${RELAYER.address.toLowerCase()}, 0)`;
});
afterEach(async () => {
  await indexer?.stop();
  indexer = undefined;
  liar.fault = () => undefined;
  honest.fault = () => undefined;
});
afterAll(async () => {
  await Promise.all([liar?.stop(), honest?.stop()]);
  await lab?.stop();
});

const isAboutTransaction = ({ method }: ProxiedCall) => method === "eth_getTransactionByHash";

/** How often the liar lied about a transaction. */
function lieAbout(change: (transaction: Transaction) => unknown): () => number {
  let lies = 0;
  const edit = (reply: Reply): Reply => {
    if ((reply.result as Transaction | null | undefined)?.input === undefined) return reply;
    lies += 1;
    return { ...reply, result: change(reply.result as Transaction) };
  };
  liar.fault = (calls) =>
    calls.some(isAboutTransaction)
      ? {
          kind: "edit",
          edit: (answer) => (Array.isArray(answer) ? answer.map(edit) : edit(answer as Reply)),
        }
      : undefined;
  return () => lies;
}

async function makeTwins(): Promise<[string, string]> {
  const units = nextUnits();
  const links: string[] = [];
  for (let index = 0; index < 2; index++) {
    const id = await makeLink(lab, ann, { units });
    await lab.sql`update payment_links set tag = ${linkTag(id)} where id = ${id}`;
    links.push(id);
  }
  return [links[0] ?? "", links[1] ?? ""];
}

/** A call to the token with a key's signature. */
async function sendCall(privateKey: Hex, data: Hex): Promise<Hex> {
  const { rpcUrl } = lab.chain;
  const account = privateKeyToAccount(privateKey);
  await fundEth(rpcUrl, account.address.toLowerCase() as Hex, 10n ** 18n);
  const raw = await account.signTransaction({
    ...{ type: "eip1559", chainId: NETWORKS[NETWORK].chainId, nonce: 0, gas: 300_000n, to: USDC, data },
    ...{ maxFeePerGas: 20n * 10n ** 9n, maxPriorityFeePerGas: 1n },
  });
  return (await callRpcText(rpcUrl, "eth_sendRawTransaction", [raw])) as Hex;
}

async function payWithTag(linkId: string): Promise<Hex> {
  const payer = makePayer();
  const { amountUnits } = await linkOf(lab, linkId);
  await fundUsdc(lab.chain.rpcUrl, payer.address, amountUnits);
  const data: Hex = `${encodeTransfer(ann.address, amountUnits)}${linkTag(linkId).slice(2)}`;
  return sendCall(payer.privateKey, data);
}

async function expectAmbiguous(links: readonly string[], txHash: Hex): Promise<void> {
  const [transfer] = await lab.sql<{ linkId: string | null; candidates: string[] }[]>`
    select link_id, candidates from transfers where tx_hash = ${txHash}`;
  expect(transfer?.linkId).toBeNull();
  expect([...(transfer?.candidates ?? [])].sort()).toEqual([...links].sort());
  for (const linkId of links) expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
}

test("a false input that names the competing link: the only node is not trusted, and nothing is paid", async () => {
  const [meant, twin] = await makeTwins();
  const lies = lieAbout((one) => ({
    ...one,
    input: one.input.replace(linkTag(meant).slice(2), linkTag(twin).slice(2)),
  }));
  indexer = startIndexer(lab, { urls: [liar.url] });
  const hash = await payWithTag(meant);
  await settled(lab);
  expect(lies()).toBeGreaterThan(0);
  await expectAmbiguous([meant, twin], hash);
});

test("a false input: another node's answer that matches the hash is accepted", async () => {
  const [meant, twin] = await makeTwins();
  const lies = lieAbout((one) => ({
    ...one,
    input: one.input.replace(linkTag(meant).slice(2), linkTag(twin).slice(2)),
  }));
  // whichever node is asked first, the lie comes before the truth
  honest.fault = (calls) =>
    lies() === 0 && calls.some(isAboutTransaction) ? { kind: "status", status: 500 } : undefined;
  indexer = startIndexer(lab, { urls: [liar.url, honest.url] });
  await payWithTag(meant);
  await settled(lab);
  expect(lies()).toBeGreaterThan(0);
  expect(await linkOf(lab, meant)).toMatchObject({ status: "PAID", settledBy: "tag" });
  expect(await linkOf(lab, twin)).toMatchObject({ status: "ACTIVE" });
});

test("a false sender that is one of our relayers: the signature shows who sent it", async () => {
  const [meant, twin] = await makeTwins();
  const { amountUnits } = await linkOf(lab, meant);
  const lies = lieAbout((one) => ({ ...one, from: RELAYER.address.toLowerCase() }));
  indexer = startIndexer(lab, { urls: [liar.url] });
  const { data } = await authorize(await makeSigner(lab), { to: ann.address, value: amountUnits });
  const hash = await sendCall(makePayer().privateKey, `${data}${linkTag(twin).slice(2)}`);
  await settled(lab);
  expect(lies()).toBeGreaterThan(0);
  await expectAmbiguous([meant, twin], hash);
});

test("another transaction's correct answer is not accepted for this one", async () => {
  const [meant, twin] = await makeTwins();
  const other = await payWithTag(twin);
  const otherAnswer = await callRpc(lab.chain.rpcUrl, "eth_getTransactionByHash", [other]);
  // read without the transfer above, whose link would be paid by it
  const [paidElsewhere] = await makeTwins();
  const lies = lieAbout((one) => (one.hash === other ? one : otherAnswer));
  indexer = startIndexer(lab, { urls: [liar.url] });
  await payWithTag(paidElsewhere);
  await settled(lab);
  expect(lies()).toBeGreaterThan(0);
  expect(await linkOf(lab, twin)).toMatchObject({ status: "PAID", exception: "NONE", settledBy: "tag" });
  expect(await linkOf(lab, meant)).toMatchObject({ status: "ACTIVE" });
  expect(await linkOf(lab, paidElsewhere)).toMatchObject({ status: "ACTIVE" });
});

test("no index of transactions on any node: the tag is read from the block", async () => {
  const [meant, twin] = await makeTwins();
  indexer = startIndexer(lab, { urls: [liar.url] });
  await settled(lab);
  const denied = lieAbout(() => null);
  await payWithTag(meant);
  await settled(lab);
  expect(denied()).toBeGreaterThan(0);
  expect(await linkOf(lab, meant)).toMatchObject({ status: "PAID", settledBy: "tag" });
  expect(await linkOf(lab, twin)).toMatchObject({ status: "ACTIVE" });
});

test("while no node has the transaction the block waits, and its tag counts once one has it", async () => {
  const [meant, twin] = await makeTwins();
  indexer = startIndexer(lab, { urls: [liar.url] });
  await settled(lab);
  let refused = 0;
  liar.fault = (calls) => {
    const isAbout = calls.some(
      ({ method, params }) =>
        method === "eth_getTransactionByHash" ||
        (method === "eth_getBlockByHash" && (params as unknown[])[1] === true),
    );
    if (!isAbout) return undefined;
    refused += 1;
    return { kind: "reply", reply: () => null };
  };
  await payWithTag(meant);
  await until("the transaction is asked for again and again", async () => refused > 6);
  const [cursor] = await lab.sql<{ hash: Hex }[]>`select hash from cursors where network = ${NETWORK}`;
  expect(cursor?.hash).not.toBe((await headOf(lab)).hash);
  expect(await linkOf(lab, meant)).toMatchObject({ status: "ACTIVE" });
  liar.fault = () => undefined;
  await settled(lab);
  expect(await linkOf(lab, meant)).toMatchObject({ status: "PAID", settledBy: "tag" });
  expect(await linkOf(lab, twin)).toMatchObject({ status: "ACTIVE" });
});
