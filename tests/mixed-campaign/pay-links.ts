/** Merchants' links, and payers who pay them in every way while the service fails: by authorization, tag, unique amount and claim, twice, or before the relay does. */
import { randomBytes } from "node:crypto";
import { encodeTransfer, encodeTransferWithBytes } from "../../core/chain/usdc.ts";
import { parseUnitsFromNumber, toAmountNumber } from "../../core/domain/money.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type SignedPayment, shapeA, signPayment } from "../support/payer.ts";
import { waitFor } from "../support/relay-lab.ts";
import { drawOne, drawWeighted } from "../support/seeded-random.ts";
import { type Account, type CampaignChain, sendToToken } from "./campaign-chain.ts";
import { claimTransfer } from "./claim-transfer.ts";
import { count, type Link, type Stage, type Way } from "./stage.ts";

/** `accounts`: how many of them pay or broadcast. */
const WAYS: readonly (readonly [weight: number, { way: Way; accounts: number }])[] = [
  [2, { way: "authorization", accounts: 1 }],
  [1, { way: "two authorizations", accounts: 2 }],
  [1, { way: "tag", accounts: 1 }],
  [1, { way: "unique amount", accounts: 1 }],
  [1, { way: "authorization and transfer", accounts: 2 }],
  [1, { way: "authorization and stranger", accounts: 2 }],
  [1, { way: "authorization and cancellation", accounts: 1 }],
  [2, { way: "claimed transfer", accounts: 1 }],
  [1, { way: "use of a reusable link", accounts: 1 }],
];
const PRICES = [1_000_000n, 1_000_000n, 250_000n] as const;
const TAGGED_NONCE_SHARE = 0.3;
const AUTHORIZATION_S = 3_600;
/** Links after which the next one is made only when it has been paid. */
const ONE_BY_ONE_SHARE = 0.5;
const PAUSE_MAX_MS = 800;
const SECOND_PAYER_WITHIN_MS = 2_000;
const CANCELLED_WITHIN_MS = 4_000;
const TAGGED_USE_SHARE = 0.5;
const STRANGER_AFTER_MS = 1_500;
const STRANGER_WITHIN_MS = 3_000;
/** The rest of the strangers broadcast at the earliest moment. */
const LATER_STRANGER_SHARE = 0.5;
const STORED_TIMEOUT_MS = 30_000;
const PAYER_TIMEOUT_MS = 90_000;
const PENDING_PAUSE_MS = 300;

/** One maker of links, until `mayGoOn` says no or the accounts are used up; resolves when all its payers have their answers. */
export async function payLinks(stage: Stage, mayGoOn: () => boolean): Promise<void> {
  const { random } = stage;
  const payments: Promise<void>[] = [];
  while (mayGoOn()) {
    const chain = drawOne(random, stage.chains);
    const { way, accounts: wanted } = drawWeighted(random, WAYS);
    if (chain.accounts.length < wanted) {
      count(stage, "makers of links without further accounts");
      break;
    }
    const accounts = chain.accounts.splice(0, wanted);
    const payment = payNewLink(stage, { chain, way, accounts }).catch((error: unknown) => {
      stage.unexpected.push(`link paid by ${way}: ${error}`);
    });
    payments.push(payment);
    if (random() < ONE_BY_ONE_SHARE) await payment;
    await Bun.sleep(random() * PAUSE_MAX_MS);
  }
  await Promise.all(payments);
}

type Order = { chain: CampaignChain; way: Way; accounts: readonly Account[] };

async function payNewLink(stage: Stage, { chain, way, accounts }: Order): Promise<void> {
  const [account, other] = accounts as [Account, Account];
  const link = await makeLink(stage, chain, way);
  stage.links.push(link);
  count(stage, `link paid by ${way}`);
  switch (way) {
    case "authorization":
      return payByAuthorization(stage, link, account);
    case "two authorizations":
      await Promise.all([account, other].map((payer) => payByAuthorization(stage, link, payer)));
      return;
    case "tag":
      return payByTransfer(chain, { link, account, isByTag: true });
    case "unique amount":
      return payByTransfer(chain, { link, account, isByTag: false });
    case "authorization and transfer":
      await Promise.all([
        payByAuthorization(stage, link, account),
        Bun.sleep(stage.random() * SECOND_PAYER_WITHIN_MS).then(() =>
          payByTransfer(chain, { link, account: other, isByTag: stage.random() < 0.5 }),
        ),
      ]);
      return;
    case "authorization and stranger":
      return payByAuthorization(stage, link, account, (payment) =>
        broadcastAsStranger(stage, chain, { payment, stranger: other }),
      );
    case "authorization and cancellation":
      return payByAuthorization(stage, link, account, () => cancelLink(stage, link));
    case "claimed transfer":
      return claimTransfer(stage, chain, { link, account });
    case "use of a reusable link":
      if (stage.random() < TAGGED_USE_SHARE) return payByTransfer(chain, { link, account, isByTag: true });
      return payByAuthorization(stage, link, account);
  }
}

async function makeLink(stage: Stage, { network }: CampaignChain, way: Way): Promise<Link> {
  const merchant = drawOne(stage.random, stage.merchants);
  const amountUnits = drawOne(stage.random, PRICES);
  const isReusable = way === "use of a reusable link";
  const terms = {
    ...{ amount: toAmountNumber(amountUnits), description: "Mixed campaign", network },
    ...(isReusable ? { maxPayments: null } : {}),
  };
  const headers = { "idempotency-key": crypto.randomUUID() };
  const made = await merchant.client.post("/v1/payment-links", terms, headers);
  if (made.status !== 201) throw new Error(`no link was made: ${made.status} ${made.text}`);
  const id: string = isReusable ? await openUse(stage, made.body.id) : made.body.id;
  const { body } = await stage.payers.get(`/api/v1/public/payment-links/${id}/data`);
  return {
    ...{ id, network, merchantId: merchant.userId, wallet: merchant.walletAddress as Hex, amountUnits },
    payAmountUnits: body.payAmount === null ? undefined : parseUnitsFromNumber(body.payAmount),
    ...{ tag: body.tag, way, madeAtMs: Date.now(), authorizers: [], senders: [], isToldPaid: false },
  };
}

async function openUse(stage: Stage, linkId: string): Promise<string> {
  const opened = await stage.payers.post(`/api/v1/public/payment-links/${linkId}/uses`, {});
  if (opened.status !== 201) throw new Error(`no use was opened: ${opened.status} ${opened.text}`);
  return opened.body.linkId;
}

/** Before, while or after its payer's authorization is accepted: refused where that may still execute. */
async function cancelLink(stage: Stage, link: Link): Promise<void> {
  await Bun.sleep(stage.random() * CANCELLED_WITHIN_MS);
  const merchant = stage.merchants.find(({ userId }) => userId === link.merchantId);
  const answer = await merchant?.client.post(`/v1/payment-links/${link.id}/cancel`);
  count(stage, `cancellation answered ${answer?.status}`);
}

/** `meanwhile` has what was signed, while the payer waits for an answer. */
async function payByAuthorization(
  stage: Stage,
  link: Link,
  account: Account,
  meanwhile?: (payment: SignedPayment) => Promise<void>,
): Promise<void> {
  link.authorizers.push(account.address);
  const isTagged = stage.random() < TAGGED_NONCE_SHARE;
  const payment = await signPayment(account, {
    ...{ to: link.wallet, amountUnits: link.amountUnits, network: link.network },
    validBefore: Math.floor(Date.now() / 1000) + AUTHORIZATION_S,
    ...(isTagged ? { nonce: `${link.tag}${randomBytes(16).toString("hex")}` as const } : {}),
  });
  await Promise.all([showAuthorization(stage, link, payment), meanwhile?.(payment)]);
}

/** The same body until the answer is final. */
async function showAuthorization(stage: Stage, link: Link, payment: SignedPayment): Promise<void> {
  const body = shapeA(payment, link.network);
  const deadline = Date.now() + PAYER_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const answer = await stage.payers.post(`/v1/x402/${link.id}/pay`, body).catch(() => undefined);
    if (answer && answer.status !== 202) {
      if (answer.status === 200) link.isToldPaid = true;
      const { error } = answer.body ?? {};
      const code = answer.status === 200 ? "" : ` ${typeof error === "string" ? error : error?.code}`;
      count(stage, `payer answered ${answer.status}${code}`);
      return;
    }
    await Bun.sleep(PENDING_PAUSE_MS);
  }
  count(stage, "payer not answered in time");
}

type PlainPayment = { link: Link; account: Account; isByTag: boolean };

/** By the link's tag, or by its unique amount where it has one. */
async function payByTransfer(chain: CampaignChain, { link, account, isByTag }: PlainPayment): Promise<void> {
  link.senders.push(account.address);
  const { wallet, amountUnits, payAmountUnits, tag } = link;
  const data: Hex =
    isByTag || payAmountUnits === undefined
      ? `${encodeTransfer(wallet, amountUnits)}${tag.slice(2)}`
      : encodeTransfer(wallet, payAmountUnits);
  await sendToToken(chain, account, data);
}

type Broadcast = { payment: SignedPayment; stranger: Account };

/** Executes the authorization once the service has accepted it: before its relay, after it, or in the place of one that was reorganised away. */
async function broadcastAsStranger(
  stage: Stage,
  chain: CampaignChain,
  { payment, stranger }: Broadcast,
): Promise<void> {
  const { random, sql } = stage;
  const isStored = await waitFor(
    `the payment of ${payment.from} to be stored`,
    async () => (await sql`select from payments where payer = ${payment.from}`).length > 0,
    STORED_TIMEOUT_MS,
  ).catch(() => false);
  if (!isStored) return count(stage, "strangers who saw no payment");
  const laterMs = random() < LATER_STRANGER_SHARE ? random() * STRANGER_WITHIN_MS : 0;
  await Bun.sleep(STRANGER_AFTER_MS + laterMs);
  const { value, validAfter, validBefore, signature, ...fields } = payment;
  const amounts = { value: BigInt(value), validAfter: BigInt(validAfter), validBefore: BigInt(validBefore) };
  await sendToToken(chain, stranger, encodeTransferWithBytes({ ...fields, ...amounts }, signature));
}
