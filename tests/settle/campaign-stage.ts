/** Where the ledger campaign plays: what its steps share, and how they reach the chain. */
import { keccak256 } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import type { NewFacilitatedPayment } from "../../db/payments/facilitated-payments.ts";
import type { PaymentLink } from "../../db/schema.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type Lab, type Merchant, type RunningIndexer, USDC } from "../support/indexer-lab.ts";
import type { Signer } from "../support/indexer-lab-payments.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { lowerOf } from "./campaign-links.ts";
import type { CampaignNodes } from "./campaign-nodes.ts";

export const AMOUNTS = [1_000_000n, 2_000_000n] as const;
export const NEWEST_LINKS_MET = 3;

/** Signed bytes that a block of a new branch may hold again, whatever else it holds. `from` is whose USDC they move. */
export type Sent = { raw: Hex; txHash: Hex; from: Hex };
export type Signed = { paymentId: string; signer: Signer; nonce: Hex; data: Hex };

export type Stage = {
  lab: Lab;
  random: () => number;
  /** The second one trusts proofs alone. */
  merchants: Merchant[];
  /** Paid before their wallets are added, with the time, the oldest first. */
  newAddresses: { address: Hex; paidAtMs: number }[];
  /** The user of the facilitator, with the API key. */
  client: Pick<NewFacilitatedPayment, "facilitatorUserId" | "facilitatorKeyId">;
  nodes: CampaignNodes;
  /** None while it is stopped. */
  indexer: RunningIndexer | undefined;
  /** Each sends one transaction, so that none depends on another. */
  senders: PrivateKeyAccount[];
  signers: readonly Signer[];
  signed: Signed[];
  sent: Sent[];
  reusable: string[];
  /** Nonces that payers have cancelled, on whatever branch. */
  spent: Set<Hex>;
  claims: string[];
  /** Link, transaction and proof of each claim: a second one is the same claim. */
  claimed: Set<string>;
  /** Ends when nobody is at the chain: what a block holds depends on who sent before. */
  chainIsFree: Promise<unknown>;
  counts: Record<string, number>;
};

/** One after another, whoever asks. */
export function atTheChain<Result>(stage: Stage, work: () => Promise<Result>): Promise<Result> {
  const done = stage.chainIsFree.then(work);
  stage.chainIsFree = done.catch(() => undefined);
  return done;
}

export function anyOf<Item>({ random }: Stage, items: readonly Item[]): Item | undefined {
  return items[Math.floor(random() * items.length)];
}

export function anyMerchant(stage: Stage): Merchant {
  const merchant = anyOf(stage, stage.merchants);
  if (!merchant) throw new Error("there is no merchant");
  return merchant;
}

export function anyAmount(stage: Stage): bigint {
  return anyOf(stage, AMOUNTS) ?? AMOUNTS[0];
}

/** One of the newest links, whatever became of it. */
export async function newLink(stage: Stage) {
  const rows = await stage.lab.sql<
    PaymentLink[]
  >`select * from payment_links where not is_reusable order by created_at, id`;
  return anyOf(stage, rows.slice(-NEWEST_LINKS_MET));
}

/** A call's data with the tag of the link that it pays. */
export function tagged(data: Hex, tag: Hex): Hex {
  return `${data}${tag.slice(2)}`;
}

/** A block of its own for a call, of the token unless said otherwise. */
export async function sendCall(stage: Stage, data: Hex, from?: Hex, to: Hex = USDC): Promise<void> {
  await sendSigned(stage, await signCall(stage, data, from, to));
}

export async function signCall(stage: Stage, data: Hex, from?: Hex, to: Hex = USDC): Promise<Sent> {
  const sender = stage.senders.pop();
  if (!sender) throw new Error("there are fewer senders than steps");
  const raw = await sender.signTransaction({
    ...{ chainId: stage.lab.chain.chainId, type: "eip1559", nonce: 0, to, data },
    ...{ gas: 900_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 1n },
  });
  return { raw, txHash: keccak256(raw), from: from ?? lowerOf(sender) };
}

export async function sendSigned(stage: Stage, sent: Sent): Promise<void> {
  const { rpcUrl } = stage.lab.chain;
  await atTheChain(stage, async () => {
    await callRpc(rpcUrl, "eth_sendRawTransaction", [sent.raw]);
    await waitForReceipt(rpcUrl, sent.txHash);
  });
  stage.sent.push(sent);
}
