/** The data that the server embeds in the page for this script. */

import type en from "../messages/en.json";
import { fillMessage } from "../messages/isolate.ts";
import type { PublicPaymentLink } from "../wire.ts";

export type Hex = `0x${string}`;

/** The public link data; absent on the page of a link whose payer chooses the amount, which asks for that first. */
export type Link = Omit<
  PublicPaymentLink,
  "amount" | "recipientAddress" | "tag" | "token" | "transactionHash" | "payer"
> & {
  amount: number;
  recipientAddress: Hex;
  tag: Hex | null;
  token: { address: Hex; name: string; version: string };
  transactionHash: Hex | null;
  payer: Hex | null;
  /** The block being built contains a transfer that would pay the link. A hint: no state depends on it. */
  seen?: boolean;
};

export type Messages = typeof en;
export type Network = { name: string; rpcUrl: string; explorer: string };

type Page = {
  link: Link;
  language: string;
  messages: Messages;
  network: Network;
  /** The shop that embeds this page, according to the server. */
  shopOrigin: string | null;
  /** Ways to pay with wallets outside this browser, each with its script; only those that the service offers. */
  furtherWallets?: {
    walletConnect?: { projectId: string; script: string };
    baseAccount?: { script: string };
  };
};

export const page: Page = JSON.parse(document.getElementById("page")?.textContent ?? "{}");

export function say(key: keyof Messages, values: Record<string, string> = {}): string {
  return fillMessage(page.messages[key], values, document.dir);
}

// Latin digits everywhere: an amount is compared with what a wallet shows.
const locale = `${page.language}-u-nu-latn`;
const amounts = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 6 });
const times = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });

export const formatAmount = (amount: number) => amounts.format(amount);
/** In the reader's own time zone. */
export const formatTime = (time: string) => times.format(new Date(time));

let offsetMs = 0;

/** The server's clock decides what is still valid; the reader's may be wrong. */
export function setClock(serverNow: string): void {
  offsetMs = Date.parse(serverNow) - Date.now();
}

export const serverNowMs = () => Date.now() + offsetMs;

/** A phone or a tablet. */
export const isTouched = () => matchMedia("(pointer: coarse)").matches;

export const unitsOf = (amount: number) => BigInt(Math.round(amount * 1e6));
