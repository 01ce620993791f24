/** Wallets of the ledger campaign that are added after they were paid, and transfers between two wallets of ours. */
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { fundEth } from "../../local/chain/usdc.ts";
import { type Merchant, makeMerchant, randomAddress, send, USDC } from "../support/indexer-lab.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { makeLink } from "./campaign-links.ts";
import {
  anyAmount,
  anyMerchant,
  anyOf,
  atTheChain,
  newLink,
  type Stage,
  sendCall,
  tagged,
} from "./campaign-stage.ts";

const GAS_WEI = 10n ** 20n;
/** Of the first wallets, which have received more than the others. */
const PAYERS = 2;

/** By a stranger or by a wallet of ours, in whose history the transfer is then before it is in the new wallet's. */
export async function payNewAddress(stage: Stage): Promise<void> {
  const address = randomAddress();
  stage.newAddresses.push({ address, paidAtMs: Date.now() });
  const data = encodeTransfer(address, anyAmount(stage));
  if (stage.random() < 0.5) await sendCall(stage, data);
  else await sendFrom(stage, anyPayer(stage), data);
}

/**
 * The wallet is as old as its first transfer, but was not followed then. Half of them are paid at once by another wallet, for the second of
 * two links of one amount.
 */
export async function addWallet(stage: Stage): Promise<void> {
  const next = stage.newAddresses.shift();
  if (!next) return;
  const payer = anyPayer(stage);
  const added = await makeMerchant(stage.lab, next.address, (next.paidAtMs - Date.now()) / 1_000);
  stage.merchants.push(added);
  if (stage.random() < 0.5) return;
  const units = anyAmount(stage);
  await makeLink(stage.lab, added, units);
  const id = await makeLink(stage.lab, added, units);
  await sendFrom(stage, payer, tagged(encodeTransfer(added.address, units), linkTag(id)));
}

/** One wallet of ours pays another one, or itself; half of the time for a link. Reverted when it has too little. */
export async function payBetweenWallets(stage: Stage): Promise<void> {
  const [from, to, units] = [anyMerchant(stage), anyMerchant(stage), anyAmount(stage)];
  const link = stage.random() < 0.5 ? await newLink(stage) : undefined;
  const data = link?.tag
    ? tagged(encodeTransfer(link.recipient, link.amountUnits), link.tag)
    : encodeTransfer(to.address, units);
  await sendFrom(stage, from, data);
}

function anyPayer(stage: Stage): Merchant {
  return anyOf(stage, stage.merchants.slice(0, PAYERS)) ?? anyMerchant(stage);
}

function sendFrom(stage: Stage, { address }: Merchant, data: Hex): Promise<void> {
  const { rpcUrl } = stage.lab.chain;
  return atTheChain(stage, async () => {
    await fundEth(rpcUrl, address, GAS_WEI);
    await waitForReceipt(rpcUrl, await send(stage.lab, address, USDC, data));
  });
}
