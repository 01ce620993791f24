import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { privateKeyToAccount } from "viem/accounts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { callRpcText } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { startFaultProxy } from "../support/fault-proxy.ts";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  pay,
  settled,
  startIndexer,
  USDC,
} from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { makePayer as makeKey } from "../support/payer.ts";
import { seededRandom } from "../support/seeded-random.ts";

setDefaultTimeout(120_000);
const random = seededRandom("catch-up");
/** More than are asked for by their addresses: the whole token is read then. */
const MANY_WALLETS = 1_500;

/** A call to the token by a sender who holds `units`. What an unsigned transaction says is not believed. */
async function sendSigned({ chain: { rpcUrl } }: Lab, units: bigint, data: Hex): Promise<void> {
  const account = privateKeyToAccount(makeKey().privateKey);
  await fundUsdc(rpcUrl, account.address.toLowerCase() as Hex, units);
  await fundEth(rpcUrl, account.address.toLowerCase() as Hex, 10n ** 18n);
  const raw = await account.signTransaction({
    ...{ type: "eip1559", chainId: NETWORKS[NETWORK].chainId, nonce: 0, gas: 300_000n, to: USDC, data },
    ...{ maxFeePerGas: 20n * 10n ** 9n, maxPriorityFeePerGas: 1n },
  });
  await callRpcText(rpcUrl, "eth_sendRawTransaction", [raw]);
}

describe.each([0, MANY_WALLETS])("with %d other wallets", (others) => {
  let lab: Lab;
  let merchant: Merchant;
  let payer: `0x${string}`;
  const freshUnits = amounts();
  beforeAll(async () => {
    lab = await openLab();
    await makeManyWallets(lab, others);
    merchant = await makeMerchant(lab);
    payer = await makePayer(lab);
    const indexer = startIndexer(lab, { confirmations: 3 });
    await settled(lab);
    await indexer.stop();
  });
  afterAll(() => lab.stop());

  test("transfers mined while no indexer ran are settled, including those that waited for confirmations", async () => {
    const links: string[] = [];
    const payOne = async () => {
      const units = freshUnits();
      links.push(await makeLink(lab, merchant, { units, endsInS: 100_000 }));
      await pay(lab, payer, merchant.address, units);
    };
    let indexer = startIndexer(lab, { confirmations: 3 });
    await payOne();
    await settled(lab);
    await indexer.stop();
    expect(await linkOf(lab, links[0] ?? "")).toMatchObject({ status: "PENDING" });
    for (let round = 0; round < 10; round++) {
      await payOne();
      await mine(lab, Math.floor(random() * 200));
    }
    await mine(lab, 3);
    indexer = startIndexer(lab, { confirmations: 3 });
    await settled(lab);
    await indexer.stop();
    await assertInvariants(lab.sql, lab.chain);
    const rows = await Promise.all(links.map((id) => linkOf(lab, id)));
    expect(rows.filter((link) => link.status !== "PAID")).toEqual([]);
    const undeep = await lab.sql`select 1 from transactions where status <> 'CONFIRMED'`;
    expect(undeep).toHaveLength(0);
  });

  test("a node that calls its newest block final confirms no transfer before its time", async () => {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units, endsInS: 100_000 });
    await mine(lab, 400);
    await pay(lab, payer, merchant.address, units);
    const faults = { headIsFinal: true };
    const proxy = await startFaultProxy(lab.chain.rpcUrl, { random, faults });
    const indexer = startIndexer(lab, { confirmations: 3, urls: [proxy.url] });
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    await mine(lab, 2);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
    await indexer.stop();
    await proxy.stop();
  });

  test("a transfer in those blocks pays the link that its transaction names, among links of the same price", async () => {
    const units = freshUnits();
    const links = [
      await makeLink(lab, merchant, { units, endsInS: 100_000 }),
      await makeLink(lab, merchant, { units, endsInS: 100_000 }),
    ];
    for (const id of links) await lab.sql`update payment_links set tag = ${linkTag(id)} where id = ${id}`;
    const [other = "", named = ""] = links;
    await sendSigned(
      lab,
      units,
      `${encodeTransfer(merchant.address, units)}${linkTag(named).slice(2)}` as Hex,
    );
    await mine(lab, 400);
    const indexer = startIndexer(lab, { confirmations: 3 });
    await settled(lab);
    await indexer.stop();
    expect(await linkOf(lab, named)).toMatchObject({ status: "PAID", settledBy: "tag" });
    expect(await linkOf(lab, other)).toMatchObject({ status: "ACTIVE" });
  });
});
