/** A check of a claim asks a node, which takes a while: what it decides about the claim must not end one that has been proven meanwhile. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { openLog } from "../../core/runtime/log.ts";
import { reopenClaims } from "../../db/ledger/assignments.ts";
import { checkClaim } from "../../worker/links/check-claims.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  type BooksLab,
  claim,
  historyOf,
  linkOf,
  NETWORK,
  openBooks,
  randomHash,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

type Call = { id: number; method: string };
const word = (value: Hex | bigint): Hex =>
  `0x${(typeof value === "bigint" ? value.toString(16) : value.slice(2)).padStart(64, "0")}`;

let lab: BooksLab;
let linkId: string;
let txHash: Hex;
let sender: Hex;
let node: ReturnType<typeof Bun.serve>;
let chain: Chain;
/** What happens while the node answers. */
let meanwhile: () => Promise<unknown> = async () => {};
/** Null: the node does not know the transaction. */
let receipt: object | null;

beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
  node = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer });
  chain = openChain({ network: NETWORK, urls: [node.url.href], timeoutMs: 10_000 });
});
afterAll(async () => {
  chain?.close();
  await node?.stop(true);
  await lab?.stop();
});
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
  [txHash, sender] = [randomHash(), randomAddress()];
  receipt = paying();
});
afterEach(() => {
  meanwhile = async () => {};
});

async function answer(request: Request): Promise<Response> {
  const asked = (await request.json()) as Call | Call[];
  const calls = Array.isArray(asked) ? asked : [asked];
  if (calls.some(({ method }) => method === "eth_getTransactionReceipt")) await meanwhile();
  const results: Record<string, unknown> = {
    eth_chainId: `0x${NETWORKS[NETWORK].chainId.toString(16)}`,
    eth_getTransactionReceipt: receipt,
    eth_getTransactionByHash: receipt && { hash: txHash },
    eth_getBlockByHash: { number: "0x5a", timestamp: `0x${Math.floor(Date.now() / 1000).toString(16)}` },
  };
  const answers = calls.map(({ id, method }) => ({ jsonrpc: "2.0", id, result: results[method] ?? null }));
  return Response.json(Array.isArray(asked) ? answers : answers[0]);
}

/** The receipt of a transfer of the link's amount by the claim's sender. */
function paying() {
  const topics = [TRANSFER_TOPIC, word(sender), word(lab.merchant.address)];
  const log = { address: NETWORKS[NETWORK].usdc.address, topics, data: word(UNITS), logIndex: "0x1" };
  return { status: "0x1", blockHash: randomHash(), logs: [log] };
}

const open = (proof: "EOA" | null = null) => claim(lab, linkId, { txHash, from: sender }, proof);
const check = (claimId: string) =>
  checkClaim(
    { sql: lab.sql, log: openLog("test", "silent"), chains: new Map([[NETWORK, chain]]) },
    { claimId },
  );
const passEnd = () =>
  lab.sql`update payment_links set expires_at = now() - interval '1 minute' where id = ${linkId}`;
async function claimOf(id: string) {
  const [row] = await lab.sql<{ state: string; reason: string | null; proof: string | null }[]>`
    select state, reason, proof from claims where id = ${id}`;
  return row;
}
const PROVEN = { state: "OPEN", reason: null, proof: "EOA" };

const JUDGED: [string, string, () => unknown][] = [
  ["late for its link", "does_not_pay_this_link", passEnd],
  [
    "counted for another link",
    "counted_elsewhere",
    async () => {
      const link = await seedLink(lab.sql, lab.merchant);
      await bookTransfer(lab, { link, pays: true, from: sender, txHash, settledBy: "amount" });
    },
  ],
  [
    "of another amount",
    "other_amount",
    () => lab.sql`update payment_links set amount_units = ${UNITS + 5n} where id = ${linkId}`,
  ],
];

test.each(JUDGED)("a transfer that is %s ends a claim without a proof", async (_, reason, prepare) => {
  const id = await open();
  await prepare();
  await check(id);
  expect(await claimOf(id)).toMatchObject({ reason });
});

test.each(JUDGED)(
  "a transfer that is %s ends no claim that is proven while it is checked, nor in its next check",
  async (_, __, prepare) => {
    const id = await open();
    await prepare();
    meanwhile = () => open("EOA");
    await check(id);
    expect(await claimOf(id)).toEqual(PROVEN);
    meanwhile = async () => {};
    await check(id);
    expect(await claimOf(id)).toEqual(PROVEN);
  },
);

test("a claim whose lease ends while a proof gives it another keeps its link and its row in the history", async () => {
  receipt = null;
  const id = await open();
  await lab.sql`update claims set lease_until = now() where id = ${id}`;
  meanwhile = () => open("EOA");
  await check(id);
  expect(await claimOf(id)).toEqual(PROVEN);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
  expect(await historyOf(lab, linkId)).toMatchObject([{ status: "PENDING" }]);
});

test("a proof that an unassigned transfer opens again while it is checked is not ended by what was true before", async () => {
  const id = await open("EOA");
  const other = await seedLink(lab.sql, lab.merchant);
  await bookTransfer(lab, { link: other, pays: true, from: sender, txHash, settledBy: "merchant" });
  meanwhile = async () => {
    await lab.sql`update claims set state = 'DISPUTED', updated_at = now() where id = ${id}`;
    const reopened = await lab.sql.begin((tx) =>
      reopenClaims(tx, { linkId: other, txHash, network: NETWORK, leaseS: 3_600 }),
    );
    expect(reopened).toEqual([id]);
  };
  await check(id);
  expect(await claimOf(id)).toEqual(PROVEN);
});
