/** The steps of one payment: what the page shows at each moment, and what the payer can still do. */

import { type Hex, type Link, page, serverNowMs } from "./page-data.ts";
import { type Attempt, readAttempt, storeAttempt, withBrowserLock } from "./remembered-payment.ts";
import { claim, readLink, submitPayment } from "./service.ts";
import { connect, describeStop, Stop, sendTransfer, signPayment } from "./wallet-calls.ts";
import type { Wallet } from "./wallets.ts";

export type BusyKey = "connecting" | "switching" | "checkingBalance" | "confirm";

export type Step =
  /** `wallet`: the one that the problem came from. */
  | { kind: "choose"; problem?: string; offersTransfer?: boolean; wallet?: Wallet | undefined }
  | { kind: "busy"; key: BusyKey; wallet: string; isTransfer: boolean }
  /** Perhaps on its way: no button to pay is shown. */
  | { kind: "sent" }
  /** This browser's payment is in a block. */
  | { kind: "settled" }
  | { kind: "unclear" }
  | { kind: "otherTab" };

const { linkId } = page.link;
const pageNetwork = { network: page.network };

export type Flow = {
  /** The step the page begins with: a payment of an earlier visit goes on. */
  resume: () => void;
  pay: (wallet: Wallet, link: Link, isTransfer: boolean) => void;
  /** Back to the choice while nothing can have been sent; a late answer of the wallet is then ignored. */
  startOver: () => void;
  /** The person says that the unclear transfer was not sent. */
  forget: () => void;
  /** The link, as just heard: a transfer of ours that no longer holds it is unclear. */
  isMine: (link: Link) => boolean;
};

export function startFlow(show: (step: Step) => void): Flow {
  let turn = 0;

  async function pay(wallet: Wallet, link: Link, isTransfer: boolean): Promise<void> {
    const mine = ++turn;
    const showIfCurrent = (step: Step) => mine === turn && show(step);
    const onStep = (key: BusyKey) => showIfCurrent({ kind: "busy", key, wallet: wallet.name, isTransfer });
    const isAlone = await withBrowserLock(linkId, async () => {
      if (readAttempt(linkId)) {
        resume();
        return;
      }
      try {
        const payer = await connect(wallet, { link, ...pageNetwork }, onStep);
        onStep("confirm");
        if (isTransfer) {
          await payByTransfer(wallet, payer, showIfCurrent);
          return;
        }
        const signed = await signPayment(wallet, link, payer);
        if (mine !== turn) return;
        await submit({ kind: "signature", payer, key: crypto.randomUUID(), ...signed }, showIfCurrent);
      } catch (error) {
        fail(error, showIfCurrent, wallet);
      }
    });
    if (!isAlone) showIfCurrent({ kind: "otherTab" });
  }

  function resume(): void {
    const attempt = readAttempt(linkId);
    if (!attempt) return;
    if (attempt.kind === "transfer") {
      show({ kind: attempt.txHash ? "sent" : "unclear" });
      if (attempt.txHash) claimTransfer(attempt.txHash, attempt.payer);
      return;
    }
    if (attempt.txHash !== undefined) {
      show({ kind: "settled" });
      return;
    }
    if (attempt.validBefore * 1000 < serverNowMs()) {
      forgetQuietly();
      return;
    }
    submit(attempt, show).catch((error) => fail(error, show));
  }

  return {
    resume,
    pay: (wallet, link, isTransfer) => void pay(wallet, link, isTransfer),
    startOver: () => {
      turn++;
      show({ kind: "choose" });
    },
    forget: () => {
      forgetQuietly();
      show({ kind: "choose" });
    },
    isMine,
  };
}

/** Whose payment it was: the one whose own answer or own hash says so. */
function isMine({ transactionHash, payer }: Link): boolean {
  const attempt = readAttempt(linkId);
  if (!attempt?.txHash && attempt?.kind !== "signature") return false;
  return attempt.txHash === transactionHash || attempt.payer.toLowerCase() === payer;
}

/** Remembered before it leaves: from here on the same bytes are all that is ever sent. */
async function submit(attempt: Extract<Attempt, { kind: "signature" }>, show: (step: Step) => void) {
  storeAttempt(linkId, attempt);
  show({ kind: "sent" });
  const txHash = await submitPayment(linkId, attempt.body, attempt.key);
  storeAttempt(linkId, { ...attempt, txHash });
  show({ kind: "settled" });
}

async function payByTransfer(wallet: Wallet, payer: Hex, show: (step: Step) => void): Promise<void> {
  const link = await readLink(linkId).catch(() => {
    throw new Stop("unavailableText");
  });
  if (!link.payable) throw new Stop("otherCameFirst");
  storeAttempt(linkId, { kind: "transfer", payer });
  const txHash = await sendTransfer(wallet, link, payer);
  if (txHash) storeAttempt(linkId, { kind: "transfer", payer, txHash });
  show({ kind: txHash ? "sent" : "unclear" });
  if (txHash) await claimTransfer(txHash, payer);
}

/** Speeds up what the indexer finds by itself: the transfer carries the link's tag. */
async function claimTransfer(transactionHash: Hex, clientWalletAddress: Hex): Promise<void> {
  await claim(linkId, { transactionHash, clientWalletAddress });
}

function fail(error: unknown, show: (step: Step) => void, wallet?: Wallet): void {
  if (!(error instanceof Stop)) throw error;
  const isUnclear = error.key === "maybeSent";
  if (!isUnclear) forgetQuietly();
  const { offersTransfer } = error;
  const problem = describeStop(error);
  show(isUnclear ? { kind: "unclear" } : { kind: "choose", problem, offersTransfer, wallet });
}

function forgetQuietly(): void {
  storeAttempt(linkId, undefined);
}
