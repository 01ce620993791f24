/** A payer whose plain transfer says nothing of its link: it is claimed, and the claim signed where the service asks for that. */
import { privateKeyToAccount } from "viem/accounts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Answer } from "../support/http-client.ts";
import { type Account, type CampaignChain, sendToToken } from "./campaign-chain.ts";
import { count, type Link, type Stage } from "./stage.ts";

const CLAIMED_WITHIN_MS = 3_000;
const TIMEOUT_MS = 90_000;
const PAUSE_MS = 1_000;

/** With the hash as soon as there is one, or later. */
export async function claimTransfer(
  stage: Stage,
  chain: CampaignChain,
  { link, account }: { link: Link; account: Account },
): Promise<void> {
  link.senders.push(account.address);
  const hash = await sendToToken(chain, account, encodeTransfer(link.wallet, link.amountUnits));
  link.claimed = { hash, payer: account, isProven: false };
  await Bun.sleep(stage.random() * CLAIMED_WITHIN_MS);
  await claimUntilAccepted(stage, link);
}

/** Until the service needs nothing more, or refuses. */
export async function claimUntilAccepted(stage: Stage, { id, claimed }: Link): Promise<void> {
  if (!claimed) throw new Error(`link ${id} has no claimed transfer`);
  const { hash, payer } = claimed;
  const claim = (signature?: Hex): Promise<Answer | undefined> =>
    stage.payers
      .post(`/api/v1/public/payment-links/${id}/complete`, {
        ...{ transactionHash: hash, clientWalletAddress: payer.address },
        ...(signature === undefined ? {} : { signature }),
      })
      .catch(() => undefined);
  const deadline = Date.now() + TIMEOUT_MS;
  while (Date.now() < deadline) {
    const first = await claim();
    const typedData = first?.body?.typedData ?? first?.body?.error?.details?.typedData;
    const signature = typedData && (await privateKeyToAccount(payer.privateKey).signTypedData(typedData));
    const answer = signature ? await claim(signature) : first;
    if (answer && answer.status < 500) {
      claimed.isProven = signature !== undefined && answer.status === 200;
      const { status, error } = answer.body ?? {};
      const said = status ?? error?.details?.issue ?? error?.code;
      count(stage, `claim ${signature ? "with proof " : ""}answered ${answer.status} ${said}`);
      return;
    }
    await Bun.sleep(PAUSE_MS);
  }
  count(stage, "claim not answered in time");
}
