/** Receipts of plain transfers are in the language of the page that claimed the transfer; nothing else depends on it. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { keccak256 } from "viem";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { PAYER_PAGE, type PayerSide, startPayerSide, waitFor } from "../links/payer-side.ts";
import { newProvingPayer, type ProvingPayer, randomHash } from "../links/payers.ts";
import { type Answer, openClient } from "../support/http-client.ts";

setDefaultTimeout(120_000);
const { chainId, usdc } = NETWORKS["base-sepolia"];
/** What the merchant's documents have otherwise. */
const MERCHANTS = "es";

let side: PayerSide;
beforeAll(async () => {
  side = await startPayerSide();
  const answer = await side.ann.client.patch("/v1/settings/books", { documentLanguage: MERCHANTS });
  expect(answer.status).toBe(200);
});
afterAll(() => side?.world.stop());

type Link = { id: string; amountUnits: bigint };
type Claimed = { hash: Hex; from: Hex; signature?: Hex };
type Shown = { id: string; number: string; status: string; language: string };

/** As the page does in its language, and a program with whatever its fetch sends. */
function claim(linkId: string, { hash, from, signature }: Claimed, language: string): Promise<Answer> {
  const body = { transactionHash: hash, clientWalletAddress: from, ...(signature ? { signature } : {}) };
  const headers = { "accept-language": language };
  return openClient(side.world.baseUrl).post(`${PAYER_PAGE}/${linkId}/complete`, body, headers);
}

async function dataOf(linkId: string) {
  return (await openClient(side.world.baseUrl).get(`${PAYER_PAGE}/${linkId}/data`)).body;
}

/** A payer's signed transfer, which is not sent yet. */
async function signTransfer(payer: ProvingPayer, { id, amountUnits }: Link, isTagged: boolean) {
  const tag: Hex = isTagged ? (await dataOf(id)).tag : "0x";
  const raw = await payer.signTransaction({
    ...{ chainId, type: "eip1559", nonce: 0, to: usdc.address, gas: 200_000n },
    ...{ maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 1n },
    data: `${encodeTransfer(side.wallet, amountUnits)}${tag.slice(2)}`,
  });
  return { hash: keccak256(raw), send: () => callRpc(side.rpcUrl, "eth_sendRawTransaction", [raw]) };
}

/** A link paid by a transfer that was claimed before any node had it. */
async function claimedTransfer(given: {
  language: string;
  isTagged?: boolean;
  claimant?: Hex;
  link?: Link;
}): Promise<Link> {
  const link = given.link ?? (await side.makeLink());
  const payer = await newProvingPayer(side.rpcUrl, link.amountUnits);
  const { hash, send } = await signTransfer(payer, link, given.isTagged ?? false);
  const answer = await claim(link.id, { hash, from: given.claimant ?? payer.lower }, given.language);
  expect([answer.status, answer.body.status]).toEqual([200, "PENDING"]);
  await send();
  await side.waitForStatus(link.id, "PAID");
  return link;
}

const documentsOf = async ({ id }: Link): Promise<Shown[]> =>
  (await side.ann.client.get(`/v1/documents?linkId=${id}`)).body.documents;
const receiptOf = (link: Link) => waitFor("the receipt", async () => (await documentsOf(link))[0]);
const settledBy = async ({ id }: Link) =>
  (await openClient(side.world.baseUrl).get(`${PAYER_PAGE}/${id}/receipt`)).body.settledBy;
async function claimedLanguage({ id }: Link): Promise<string | null | undefined> {
  const [row] = await side.world.sql<{ payerLanguage: string | null }[]>`
    select payer_language from claims where link_id = ${id}`;
  return row?.payerLanguage;
}

describe("the language of a plain transfer's receipt", () => {
  test.each([
    ["its claim", "ar", "ar"],
    ["its claim, made by a program", "*", MERCHANTS],
    ["its tag", "zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans"],
    ["its tag, claimed in a language the page does not have", "xx", MERCHANTS],
  ] as const)("is the claiming page's for a transfer that pays by %s", async (by, accepted, language) => {
    const isTagged = by.startsWith("its tag");
    const link = await claimedTransfer({ language: accepted, isTagged });
    expect((await receiptOf(link)).language).toBe(language);
    expect(await settledBy(link)).toBe(isTagged ? "tag" : "early_claim");
  });

  test("is also the language of the mail that carries it", async () => {
    const customerEmail = "ayse@customer.example";
    const order = { amount: 77.5, description: "Kahve", customerEmail };
    const { body } = await side.ann.client.post("/v1/payment-links", order);
    const link = await claimedTransfer({ language: "tr", link: { id: body.id, amountUnits: 77_500_000n } });
    const mail = await side.world.mailbox.waitForMail(customerEmail);
    expect(mail.subject).toBe(`Makbuz: ${side.ann.email.split("@")[0]} için 77,50 USDC`);
    expect(mail.text).toContain(`&lang=tr\n`);
    const { number } = (await documentsOf(link))[0] as Shown;
    expect(mail.text).toContain(`Makbuz numarası: ${number}\n`);
    expect(mail.attachments.map(({ filename }) => filename)).toEqual([`${number}.pdf`]);
  });

  test("is not that of a third party who claims the payer's transaction with another address", async () => {
    const link = await claimedTransfer({ language: "vi", isTagged: true, claimant: `0x${"ab".repeat(20)}` });
    expect(await claimedLanguage(link)).toBe("vi");
    expect((await receiptOf(link)).language).toBe(MERCHANTS);
  });

  test("is not that of the payer's claim of another transaction", async () => {
    const link = await side.makeLink();
    const payer = await newProvingPayer(side.rpcUrl, link.amountUnits);
    const { send } = await signTransfer(payer, link, true);
    expect((await claim(link.id, { hash: randomHash(), from: payer.lower }, "vi")).status).toBe(200);
    await send();
    await side.waitForStatus(link.id, "PAID");
    expect((await receiptOf(link)).language).toBe(MERCHANTS);
  });

  test("is not that of a claim of the same transaction for another link", async () => {
    const [link, other] = [await side.makeLink(), await side.makeLink()];
    const payer = await newProvingPayer(side.rpcUrl, link.amountUnits);
    const { hash, send } = await signTransfer(payer, link, true);
    expect((await claim(other.id, { hash, from: payer.lower }, "hi")).status).toBe(200);
    await send();
    await side.waitForStatus(link.id, "PAID");
    expect((await receiptOf(link)).language).toBe(MERCHANTS);
  });

  test.each([
    ["hi", "hi"],
    ["*", "tr"],
  ])(
    "is the first claim's, unless the sender's own proof comes with one: %p gives %s",
    async (proven, language) => {
      const link = await side.makeLink();
      const twin = await side.makeLink("same");
      const payer = await newProvingPayer(side.rpcUrl, link.amountUnits);
      const { hash, send } = await signTransfer(payer, link, false);
      await send();
      await waitFor("the transfer", async () => {
        const rows = await side.world.sql`select from transfers where tx_hash = ${hash}`;
        return rows.length > 0;
      });
      const from = payer.lower;
      const { body } = await claim(link.id, { hash, from }, "tr");
      expect(body.proofRequired).toBe(true);
      expect((await claim(link.id, { hash, from }, "vi")).body.proofRequired).toBe(true);
      expect(await claimedLanguage(link)).toBe("tr");
      const signature = await payer.signTypedData(body.typedData);
      expect((await claim(link.id, { hash, from, signature }, proven)).status).toBe(200);
      expect((await receiptOf(link)).language).toBe(language);
      expect(await settledBy(link)).toBe("proof");
      expect(await side.statusOf(twin.id)).toBe("ACTIVE");
    },
  );

  test("stays what it was when the receipt is issued again", async () => {
    const link = await claimedTransfer({ language: "fr" });
    const receipt = await receiptOf(link);
    expect(receipt.language).toBe("fr");
    await side.world.sql`
      update documents
      set language = 'id', voided_at = now(), void_reason = 'REORGANISED'
      where id = ${receipt.id}`;
    await side.world.sql`
      select graphile_worker.add_job('issue_documents', ${JSON.stringify({ linkIds: [link.id] })}::text::json)`;
    const again = await waitFor("the second receipt", async () =>
      (await documentsOf(link)).find(({ status }) => status === "VALID"),
    );
    expect(again.language).toBe("id");
  });
});
