/** The steps of one payment: what the page shows at each moment, and what the payer can still do. */

import { type Hex, type Link, page, serverNowMs } from "./page-data.ts";
import {
  type Attempt,
  readAttempt,
  storeAttempt,
  whenUnlocked,
  withBrowserLock,
} from "./remembered-payment.ts";
import { claim, readLink, submitPayment } from "./service.ts";
import { connect, Stop, sendTransfer, signPayment } from "./wallet-calls.ts";
import type { Wallet } from "./wallets.ts";

export type BusyKey = "connecting" | "switching" | "checkingBalance" | "confirm";

export type Step =
  /** `wallet`: the one that caused the problem. */
  | { kind: "choose"; problem?: string; offersTransfer?: boolean; wallet?: Wallet | undefined }
  | { kind: "busy"; key: BusyKey; wallet: string; isTransfer: boolean }
  /** Possibly sent: no pay button is shown. */
  | { kind: "sent" }
  /** This browser's payment is in a block. */
  | { kind: "settled" }
  | { kind: "unclear" }
  | { kind: "otherTab" };

const { linkId } = page.link;

export type Flow = {
  /** The initial step: a payment of an earlier visit continues. `isOpen`: no payment holds the link. */
  resume: (isOpen: boolean) => void;
  pay: (wallet: Wallet, link: Link, isTransfer: boolean) => void;
  /** Back to the choice while nothing can have been sent; a late response of the wallet is then ignored. */
  startOver: () => void;
  /** The person confirms that the unclear payment was not sent. */
  forget: () => void;
  /** The link was held and is open again: if our payment held it, it is unclear. */
  reopen: () => void;
  isMine: (link: Link) => boolean;
};

export function startFlow(show: (step: Step) => void): Flow {
  let turn = 0;
  /** While an attempt runs. */
  let giveUp: (() => void) | undefined;

  async function pay(wallet: Wallet, link: Link, isTransfer: boolean): Promise<void> {
    const mine = ++turn;
    const showIfCurrent = (step: Step) => mine === turn && show(step);
    const onStep = (key: BusyKey) => {
      // after a restart the wallet gets no further request of this attempt
      if (mine !== turn) throw new Stop("otherTab");
      show({ kind: "busy", key, wallet: wallet.name, isTransfer });
    };
    const work = async () => {
      if (readAttempt(linkId)) {
        resume(false);
        return;
      }
      try {
        const payer = await connect(wallet, link, onStep);
        if (isTransfer) await assertPayable();
        onStep("confirm");
        if (isTransfer) {
          await payByTransfer(wallet, { link, payer }, showIfCurrent);
          return;
        }
        const signed = await signPayment(wallet, link, payer);
        if (mine !== turn) return;
        await submit({ kind: "signature", payer, ...signed }, showIfCurrent);
      } catch (error) {
        if (mine === turn) fail(error, show, wallet);
      }
    };
    onStep("connecting");
    const givenUp = new Promise<void>((resolve) => {
      giveUp = resolve;
    });
    // a wallet that never responds must not keep the lock from the next attempt
    try {
      if (await withBrowserLock(linkId, () => Promise.race([work(), givenUp]))) return;
      showIfCurrent({ kind: "otherTab" });
      await whenUnlocked(linkId);
      showIfCurrent({ kind: "choose" });
      resume(false);
    } finally {
      if (mine === turn) giveUp = undefined;
    }
  }

  function resume(isOpen: boolean): void {
    const attempt = readAttempt(linkId);
    if (!attempt) return;
    if (attempt.kind === "transfer") {
      show({ kind: attempt.txHash ? "sent" : "unclear" });
      if (attempt.txHash) claimTransfer(attempt.txHash, attempt.payer, show);
      return;
    }
    if (attempt.txHash !== undefined) {
      show({ kind: isOpen ? "unclear" : "settled" });
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
    // a second click must not start a second attempt
    pay: (wallet, link, isTransfer) => giveUp ?? void pay(wallet, link, isTransfer),
    startOver: () => {
      turn++;
      giveUp?.();
      giveUp = undefined;
      show({ kind: "choose" });
    },
    reopen: () => {
      if (readAttempt(linkId)?.txHash !== undefined) show({ kind: "unclear" });
    },
    forget: () => {
      forgetQuietly();
      show({ kind: "choose" });
    },
    isMine,
  };
}

/** Whether the payment was this browser's: its response or its hash shows it. */
function isMine({ transactionHash, payer }: Link): boolean {
  const attempt = readAttempt(linkId);
  if (!attempt?.txHash && attempt?.kind !== "signature") return false;
  return attempt.txHash === transactionHash || attempt.payer.toLowerCase() === payer;
}

/** Stored before it is sent: from here on only these bytes are sent. */
async function submit(attempt: Extract<Attempt, { kind: "signature" }>, show: (step: Step) => void) {
  storeAttempt(linkId, attempt);
  show({ kind: "sent" });
  const txHash = await submitPayment(linkId, attempt.body, attempt.key);
  storeAttempt(linkId, { ...attempt, txHash });
  show({ kind: "settled" });
}

async function assertPayable(): Promise<void> {
  const { payable } = await readLink(linkId).catch(() => {
    throw new Stop("unavailableText");
  });
  if (!payable) throw new Stop("otherCameFirst");
}

async function payByTransfer(
  wallet: Wallet,
  { link, payer }: { link: Link; payer: Hex },
  show: (step: Step) => void,
): Promise<void> {
  storeAttempt(linkId, { kind: "transfer", payer });
  const txHash = await sendTransfer(wallet, link, payer);
  if (txHash) storeAttempt(linkId, { kind: "transfer", payer, txHash });
  show({ kind: txHash ? "sent" : "unclear" });
  if (txHash) await claimTransfer(txHash, payer, show);
}

/** Only speeds up detection: the indexer finds the transfer by the link's tag. A reverted transaction is not in progress. */
async function claimTransfer(
  transactionHash: Hex,
  clientWalletAddress: Hex,
  show: (step: Step) => void,
): Promise<void> {
  const { key } = await claim(linkId, { transactionHash, clientWalletAddress });
  if (key === "claimUnrelated") show({ kind: "unclear" });
}

function fail(error: unknown, show: (step: Step) => void, wallet?: Wallet): void {
  if (!(error instanceof Stop)) throw error;
  const isUnclear = error.key === "maybeSent";
  if (!isUnclear) forgetQuietly();
  const { message: problem, offersTransfer } = error;
  show(isUnclear ? { kind: "unclear" } : { kind: "choose", problem, offersTransfer, wallet });
}

function forgetQuietly(): void {
  storeAttempt(linkId, undefined);
}
