/** The page of a payment link: everything that works without a script, and the data the script starts with. */
import { NETWORKS } from "../../core/domain/networks.ts";
import type { FixedLinkData } from "../links/wire.ts";
import { embedQuery } from "./embed-origin.ts";
import { type ForeignOrigins, type FurtherWallets, originsOf } from "./further-wallets.ts";
import { type Html, html, jsonBlock } from "./html.ts";
import {
  amountHeading,
  type Branding,
  merchantMark,
  type PageFiles,
  renderDocument,
} from "./html-document.ts";
import { ICONS } from "./icons.ts";
import { byHandPart, phonePart } from "./manual-payment.ts";
import type { Messages, PageTexts } from "./page-texts.ts";

/** How often a page without script refreshes a payment's progress. */
const REFRESH_S = 10;

type View = {
  url: string;
  shopOrigin?: string | undefined;
  branding: Branding;
  /** Of the reusable link that this is a payment of. */
  parentId: string | null;
};

export function linkPage(
  link: FixedLinkData,
  texts: PageTexts,
  files: PageFiles,
  { url, shopOrigin, branding, parentId }: View,
): Html {
  const { merchantName: merchant, status } = link;
  const amount = texts.formatAmount(link.amount);
  const isOpen = link.payable;
  const { displayName } = NETWORKS[link.network];
  const furtherWallets = offeredWallets(link, files);
  const body = html`<main class="card">
${heading(link, texts, { amount, branding })}
<section id="pay" aria-live="polite">${isOpen ? waysToPay(link, texts) : stateOf(link, texts, shopOrigin)}</section>
${isOpen && html`<div id="ways">${phonePart(url, texts)}${byHandPart(link, texts)}</div>`}
${status === "EXPIRED" && parentId !== null && html`<p><a class="plain" href="/pay/${parentId}?lang=${texts.language}${embedQuery(shopOrigin)}">${texts.say("payAgain")}</a></p>`}
${returnPart(link, texts)}
</main>
<footer><p>USDC · ${displayName}</p><p>${texts.say("reference")} <bdi>${link.reference ?? link.linkId}</bdi></p></footer>`;
  return renderDocument(texts, files, {
    title: `${amount} USDC · ${merchant}`,
    description: texts.say("summary", { amount, merchant }),
    url,
    body,
    branding,
    shopOrigin,
    data: jsonBlock("page", { ...pageData(link, texts), shopOrigin: shopOrigin ?? null, furtherWallets }),
    hasFurtherWallets: furtherWallets !== undefined,
    refreshS: isOpen || status === "PENDING" ? REFRESH_S * (isOpen ? 6 : 1) : undefined,
  });
}

/** The wallets outside the browser that may pay this link, also when a payment in progress fails. */
function offeredWallets(
  { status }: FixedLinkData,
  { furtherWallets }: PageFiles,
): FurtherWallets | undefined {
  return status === "ACTIVE" || status === "PENDING" ? furtherWallets : undefined;
}

/** What the page's content security policy must allow for them. */
export function foreignOriginsOf(link: FixedLinkData, files: PageFiles): ForeignOrigins | undefined {
  const offered = offeredWallets(link, files);
  return offered && originsOf(offered, NETWORKS[link.network].publicRpcUrl);
}

/** Data for the script: the link, the texts of one language, and how to add the network to a wallet. */
function pageData(link: FixedLinkData, { language, messages }: PageTexts) {
  const { displayName, explorerUrl, publicRpcUrl } = NETWORKS[link.network];
  const network = {
    name: displayName,
    // parameters for a wallet that does not know the network yet (EIP-3085)
    rpcUrl: publicRpcUrl,
    explorer: new URL(explorerUrl).origin,
  };
  return { link, language, messages, network };
}

function heading(
  link: FixedLinkData,
  { say }: PageTexts,
  { amount, branding }: { amount: string; branding: Branding },
): Html {
  const { merchantName: merchant, description } = link;
  return html`<header>
${NETWORKS[link.network].isTestnet && html`<p class="test">${say("testNetwork")}</p>`}
<p class="merchant">${merchantMark(branding, merchant)}<bdi>${merchant}</bdi></p>
${amountHeading(amount, say("summary", { amount, merchant }))}
<p class="what"><bdi>${description}</bdi></p>
</header>`;
}

/** The link back to the shop, after the payment is settled or while there is none; the script keeps it up to date. */
function returnPart(link: FixedLinkData, { say }: PageTexts): Html | false {
  const { returnUrl, successUrl, cancelUrl, merchantName } = link;
  if (successUrl === null && cancelUrl === null) return false;
  return html`<p id="return"${returnUrl === null && { html: " hidden" }}><a class="plain"${returnUrl !== null && html` href="${returnUrl}"`} target="_top">${say("returnTo", { merchant: merchantName })}</a></p>`;
}

function waysToPay(link: FixedLinkData, { say, formatTime }: PageTexts): Html {
  return html`${link.paymentUncertain && html`<p class="note warn">${say("uncertain")}</p>`}
${isMisfit(link) && html`<p class="note warn">${say("otherAmount", { merchant: link.merchantName })}</p>`}
<div class="placeholder" aria-hidden="true"></div>
<p class="until">${say("openUntil", { time: "\0" })
    .split("\0")
    .map((part, index) =>
      index === 0
        ? part
        : html`<time datetime="${link.expiresAt}">${formatTime(link.expiresAt)}</time>${part}`,
    )}</p>`;
}

/** A transfer of a different value is booked on the still unpaid link. */
function isMisfit({ exception }: FixedLinkData): boolean {
  return exception === "UNDERPAID" || exception === "OVERPAID";
}

function stateOf(link: FixedLinkData, texts: PageTexts, shopOrigin: string | undefined): Html {
  const { say } = texts;
  const values = { merchant: link.merchantName };
  switch (link.status) {
    case "PAID":
      return html`${link.refundedAmount > 0 ? refunded(link, texts) : paid(texts)}${receiptOf(link, texts, shopOrigin)}`;
    case "EXPIRED":
      return state("wait", say("expired"), say("expiredText", values), say("alreadySent", values));
    case "CANCELLED":
      return state("off", say("cancelled"), say("cancelledText", values), say("alreadySent", values));
    case "ACTIVE":
    case "PENDING":
      return state("wait", say("inProgress"), say("inProgressText"));
  }
}

function paid({ say }: PageTexts): Html {
  return state("ok", say("paid"), say("paidByOther"));
}

function refunded(link: FixedLinkData, texts: PageTexts): Html {
  const title: keyof Messages = link.refundedAmount < link.amount ? "partlyRefunded" : "refunded";
  const amount = texts.formatAmount(link.refundedAmount);
  const text = texts.say("refundedText", { merchant: link.merchantName, amount });
  return state("back", texts.say(title), text);
}

function receiptOf(
  { linkId, status, paidAt, transactionHash, explorerUrl }: FixedLinkData,
  { say, formatTime }: PageTexts,
  shopOrigin: string | undefined,
): Html {
  // receipts are never shown in a frame
  const target = shopOrigin !== undefined && html` target="_blank"`;
  return html`<dl class="facts">
${paidAt && html`<div><dt>${say("paidOn")}</dt><dd><time datetime="${paidAt}">${formatTime(paidAt)}</time></dd></div>`}
${
  transactionHash &&
  html`<div><dt>${say("transaction")}</dt><dd><a href="${explorerUrl}${transactionHash}" rel="noopener noreferrer" target="_blank"><bdi>${shorten(transactionHash)}</bdi></a></dd></div>`
}
</dl>
${status === "PAID" && html`<a class="button second" href="/pay/${linkId}/receipt"${target}>${say("receipt")}</a>`}`;
}

function shorten(hex: string): string {
  return `${hex.slice(0, 8)}…${hex.slice(-6)}`;
}

function state(icon: keyof typeof ICONS, title: string, ...texts: string[]): Html {
  return html`<div class="state">${ICONS[icon]}<h2>${title}</h2>${texts.map((text) => html`<p>${text}</p>`)}</div>`;
}

/** The page for a link that does not exist or cannot be shown at the moment. */
export function messagePage(
  kind: "unknown" | "unavailable",
  texts: PageTexts,
  files: PageFiles,
  url: string,
): Html {
  const title = texts.say(kind);
  // a reader of the second may have paid before
  const text = texts.say(kind === "unknown" ? "unknownText" : "unavailablePage");
  const icon = kind === "unknown" ? ICONS.ask : ICONS.wait;
  const body = html`<main class="card"><div class="state">${icon}<h1>${title}</h1><p>${text}</p></div></main>`;
  return renderDocument(texts, files, { title, description: text, url, body });
}
