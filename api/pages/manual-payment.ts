/**
 * The part of the payment page for payers who send the transfer without its script: amount, address, network, and the page's URL as a
 * QR code.
 */
import { NETWORKS } from "../../core/domain/networks.ts";
import type { FixedLinkData } from "../links/wire.ts";
import { type Html, html } from "./html.ts";
import type { PageTexts } from "./page-texts.ts";
import { qrCode } from "./qr-code.ts";

/** The script closes both parts on load; without it they stay open. */
export function byHandPart(link: FixedLinkData, texts: PageTexts): Html {
  const { say } = texts;
  const network = NETWORKS[link.network].displayName;
  // plain digits with a decimal point, as wallets expect them
  const amount = plainAmount(link.payAmount ?? link.amount);
  return html`<details class="more" id="by-hand" open>
<summary>${say("byHand")}</summary>
<div class="inside">
<p>${say("byHandIntro")}</p>
<dl class="facts">
<div><dt>${say("amountLabel")}</dt><dd><span class="exact"><bdi>${amount}</bdi> USDC</span>${copyButton(amount, "copyAmount", texts)}</dd></div>
<div><dt>${say("addressLabel")}</dt><dd><bdi class="exact address">${link.recipientChecksumAddress}</bdi>${copyButton(link.recipientChecksumAddress, "copyAddress", texts)}</dd></div>
<div><dt>${say("networkLabel")}</dt><dd>${network}</dd></div>
</dl>
${link.payAmount !== null && html`<p class="small">${say("uniqueAmount")}</p>`}
<p class="small caution">${say("networkWarning", { network })}</p>
<div id="claim"></div>
</div>
</details>`;
}

export function phonePart(pageUrl: string, { say }: PageTexts): Html {
  return html`<details class="more" id="phone" open>
<summary>${say("phone")}</summary>
<div class="inside center">
${qrCode(pageUrl, say("qrLabel"))}
<p class="small">${say("phoneText")}</p>
</div>
</details>`;
}

/** Shown only when the script is running. */
function copyButton(text: string, label: "copyAmount" | "copyAddress", { say }: PageTexts): Html {
  return html`<button type="button" class="copy" data-copy="${text}" aria-label="${say(label)}" hidden>${say("copy")}</button>`;
}

function plainAmount(amount: number): string {
  return amount.toFixed(6).replace(/0{1,4}$/, "");
}
