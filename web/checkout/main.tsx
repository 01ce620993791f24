/** The script of the payment page: renders the panel, and keeps the manual ways to pay only while the link can be paid. */
import { render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { ClaimForm } from "./claim-form.tsx";
import { reportHeight, reportStatus } from "./embed.ts";
import { isTouched, page, say, setClock } from "./page-data.ts";
import { Panel } from "./panel.tsx";
import { type Wallets, watchWallets } from "./wallets.ts";
import { isFinal, watchLink } from "./watch-link.ts";

const SAID_MS = 4_000;

const ways = document.getElementById("ways");
const phone = document.getElementById("phone") as HTMLDetailsElement | null;
const byHand = document.getElementById("by-hand") as HTMLDetailsElement | null;
const claimPlace = document.getElementById("claim");

function Page() {
  const [link, setLink] = useState(page.link);
  const [isLost, setLost] = useState(false);
  const [wallets, setWallets] = useState<Wallets>({ found: [], outside: [], isSearching: true });
  useEffect(() => {
    watchWallets(setWallets);
    if (isFinal(page.link)) return;
    watchLink(
      page.link.linkId,
      (heard) => {
        setClock(heard.now);
        setLink(heard);
      },
      setLost,
    );
  }, []);
  useEffect(() => {
    if (claimPlace) render(<ClaimForm wallets={[...wallets.found, ...wallets.outside]} />, claimPlace);
    if (phone && !wallets.isSearching && wallets.found.length === 0 && !isTouched()) phone.open = true;
  }, [wallets]);
  useEffect(() => reportStatus(link), [link.status, link.transactionHash]);
  // an address next to "Paid" would invite paying again
  const isOver = isFinal(link);
  useEffect(() => {
    if (isOver) ways?.remove();
  }, [isOver]);
  const [isChoosing, setChoosing] = useState(true);
  const onChoice = useCallback((isNow: boolean) => {
    if (ways) ways.hidden = !isNow;
    setChoosing(isNow);
  }, []);
  // a payer who may have paid is not sent back as one who has not
  const returnUrl = isOver || isChoosing ? link.returnUrl : null;
  useEffect(() => showReturn(returnUrl), [returnUrl]);
  return <Panel link={link} wallets={wallets} isLost={isLost} onChoice={onChoice} />;
}

/** The shop's return URL changes with the link's status, which is signed in it. */
function showReturn(url: string | null): void {
  const part = document.getElementById("return");
  if (!part) return;
  part.hidden = url === null;
  if (url !== null) part.querySelector("a")?.setAttribute("href", url);
}

function offerCopying(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      let isCopied = true;
      try {
        await navigator.clipboard.writeText(`${button.dataset.copy}`);
      } catch {
        // pages without TLS have no clipboard, and in-app browsers may refuse it
        const text = button.parentElement?.querySelector("bdi");
        if (text) getSelection()?.selectAllChildren(text);
        isCopied = document.execCommand("copy");
      }
      spoken.textContent = button.textContent = say(isCopied ? "copied" : "selected");
      setTimeout(() => {
        button.textContent = say("copy");
      }, SAID_MS);
    });
  }
}

const spoken = document.createElement("p");
spoken.className = "hidden";
spoken.setAttribute("role", "status");

setClock(page.link.now);
document.body.append(spoken);
for (const part of [phone, byHand]) if (part) part.open = false;
ways?.classList.add("ready");
offerCopying();
reportHeight();
const place = document.getElementById("pay");
if (place) {
  place.replaceChildren();
  render(<Page />, place);
}
