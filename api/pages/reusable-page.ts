/** The page of a reusable link: who is paid for what, and a form that opens this payer's own payment. Works without a script. */
import { NETWORKS } from "../../core/domain/networks.ts";
import type { PublicLinkData } from "../links/wire.ts";
import { embedQuery } from "./embed-origin.ts";
import { type Html, html } from "./html.ts";
import {
  amountHeading,
  type Branding,
  merchantMark,
  type PageFiles,
  renderDocument,
} from "./html-document.ts";
import { ICONS } from "./icons.ts";
import type { PageTexts } from "./page-texts.ts";

/** A page that retries does not reload more often. */
const RETRY_MIN_S = 5;

/** `problem`: what was wrong with the submitted amount. */
export type ReusableView = {
  url: string;
  problem?: "amountRange" | "twoReadings" | undefined;
  /** What was typed. */
  given?: string | undefined;
  /** No place is left for this payer; seconds until one may become free. */
  retryS?: number | undefined;
  shopOrigin?: string | undefined;
  branding: Branding;
};

export function reusablePage(
  link: PublicLinkData,
  texts: PageTexts,
  files: PageFiles,
  view: ReusableView,
): Html {
  const { say, formatAmount } = texts;
  const { merchantName: merchant, description, amount } = link;
  const { displayName, isTestnet } = NETWORKS[link.network];
  const shown = amount === null ? null : formatAmount(amount);
  const retryS = view.retryS === undefined ? undefined : Math.max(RETRY_MIN_S, view.retryS);
  const body = html`<main class="card">
<header>
${isTestnet && html`<p class="test">${say("testNetwork")}</p>`}
<p class="merchant">${merchantMark(view.branding, merchant)}<bdi>${merchant}</bdi></p>
${
  shown === null
    ? html`<h1 class="open"><bdi>${description}</bdi></h1>`
    : html`${amountHeading(shown, say("summary", { amount: shown, merchant }))}
<p class="what"><bdi>${description}</bdi></p>`
}
</header>
<section id="pay">${retryS !== undefined ? full(texts, retryS) : link.payable ? form(link, texts, view) : ended(link, texts)}</section>
</main>
<footer><p>USDC · ${displayName}</p><p>${say("reference")} <bdi>${link.reference ?? link.linkId}</bdi></p></footer>`;
  const title = shown === null ? merchant : `${shown} USDC · ${merchant}`;
  const { url, branding, shopOrigin } = view;
  return renderDocument(texts, files, {
    title,
    description,
    url,
    body,
    branding,
    shopOrigin,
    refreshS: retryS,
  });
}

function form(
  link: PublicLinkData,
  { say, formatAmount, language }: PageTexts,
  { problem, given, shopOrigin }: ReusableView,
): Html {
  const { minAmount, maxAmount } = link;
  const isOpen = minAmount !== null && maxAmount !== null;
  const range = isOpen
    ? say("amountRange", { min: formatAmount(minAmount), max: formatAmount(maxAmount) })
    : "";
  const advice = problem === "twoReadings" ? ` ${say("twoReadings")}` : "";
  // a text field without a pattern: a number field accepts a comma or point depending on the browser's language and discards anything else,
  // and of a pattern the browser says only that it was not met, not why
  const field =
    isOpen &&
    html`<label>${say("yourAmount")}
<input name="amount" inputmode="decimal" autocomplete="off" required aria-describedby="range"${given !== undefined && html` value="${given}"`}${problem && html` aria-invalid="true"`}></label>
<p class="hint" id="range"${problem && html` role="alert"`}>${range}${advice}</p>`;
  return html`<form class="claim" method="post" action="/pay/${link.linkId}?lang=${language}${embedQuery(shopOrigin)}">
${field}
<button class="button" type="submit"><span>${say("continueToPay")}</span></button>
</form>`;
}

function full({ say, formatMinutes }: PageTexts, retryS: number): Html {
  const time = formatMinutes(Math.max(1, Math.ceil(retryS / 60)));
  return html`<div class="state">${ICONS.off}<h2>${say("full")}</h2><p>${say("fullText", { time })}</p></div>`;
}

function ended(link: PublicLinkData, { say }: PageTexts): Html {
  const merchant = link.merchantName;
  const [title, text] =
    link.status === "EXPIRED"
      ? [say("expired"), say("expiredText", { merchant })]
      : link.status === "CANCELLED"
        ? [say("cancelled"), say("cancelledText", { merchant })]
        : [say("usedUp"), say("expiredText", { merchant })];
  return html`<div class="state">${ICONS.off}<h2>${title}</h2><p>${text}</p></div>`;
}
