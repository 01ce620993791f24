/** One transfer with two documents: the refund of one merchant pays the link of another. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { sendUsdc } from "../links/payers.ts";
import { refundLab } from "../support/refund-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);

let world: World;
let merchant: Merchant;
let bob: Merchant;
const own = refundLab(() => ({ world, sql: world.sql, merchant }));
const bobs = refundLab(() => ({ world, sql: world.sql, merchant: bob }));

beforeAll(async () => {
  world = await startWorld({ env: { RATE_LIMITS: "0", NODE_ENV: "test" } });
  await callRpc(world.chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  [merchant, bob] = [await signUp(world.baseUrl), await signUp(world.baseUrl)];
});
afterAll(() => world?.stop());

type Shown = Record<string, unknown> & { id: string; number: string; status: string };
const documentsOf = async ({ client }: Merchant, linkId: string): Promise<Shown[]> =>
  (await client.get(`/v1/documents?linkId=${linkId}`)).body.documents;
const waitForDocuments = (whose: Merchant, linkId: string, count: number) =>
  own.until(async () => {
    const documents = await documentsOf(whose, linkId);
    return documents.length === count ? documents : undefined;
  });

describe("a refund that pays a link of another merchant", () => {
  test("has the credit note of the one and the receipt of the other, by the job and by the month's archive", async () => {
    const { rpcUrl } = world.chain;
    const [address, to] = [bob.walletAddress as Hex, merchant.walletAddress as Hex];
    // a transaction of its own would keep the wallet from being deployed
    await own.until(
      async () => (await callRpc(rpcUrl, "eth_getCode", [address, "latest"])) !== "0x" || undefined,
    );
    await fundEth(rpcUrl, address, 10n ** 18n);
    await fundUsdc(rpcUrl, address, 8_130_000n);
    const linkId = await own.makeLink(8.13);
    await sendUsdc(rpcUrl, address, to, 8_130_000n);
    const [receipt] = (await waitForDocuments(merchant, linkId, 1)) as [Shown];
    const other = await bobs.makeLink(3.37);
    await own.refunded(linkId, { amount: 3.37 });
    const ofLink = await waitForDocuments(merchant, linkId, 2);
    const note = ofLink.find(({ kind }) => kind === "CREDIT_NOTE") as Shown;
    expect(note).toMatchObject({ kind: "CREDIT_NOTE", receiptId: receipt.id, status: "VALID" });
    const about = {
      ...{ kind: "RECEIPT", status: "VALID", amount: 3.37, linkId: other },
      ...{ transactionHash: note.transactionHash, logIndex: note.logIndex },
    };
    const [issued] = (await waitForDocuments(bob, other, 1)) as [Shown];
    expect(issued).toMatchObject(about);

    await world.sql`delete from documents where id = ${issued.id}`;
    const month = String(issued.date).slice(0, 7);
    const answer = await bob.client.post("/v1/documents/archive", { month });
    expect([200, 202]).toContain(answer.status);
    const [again] = (await waitForDocuments(bob, other, 1)) as [Shown];
    expect(again).toMatchObject(about);

    await bobs.refunded(other, { amount: 1.01 });
    const both = await waitForDocuments(bob, other, 2);
    const notes = both.filter(({ kind }) => kind === "CREDIT_NOTE");
    expect(notes.map((one) => [one.receiptId, one.receiptNumber])).toEqual([[again.id, again.number]]);
    expect((await documentsOf(merchant, linkId)).map(({ status }) => status)).toEqual(["VALID", "VALID"]);
  });
});
