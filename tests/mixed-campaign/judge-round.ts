/** Judges everything since the stage was opened, by the receipts of both chains, never by the service's own account alone. */
import { assertInvariants, type ChainTransfer, readTransfers } from "../support/invariants.ts";
import type { CampaignChain } from "./campaign-chain.ts";
import { claimUntilAccepted } from "./claim-transfer.ts";
import { judgeLink, judgeOperation, judgeSummary, payingTransfers, readLinkMoney } from "./judge-money.ts";
import { judgeBalance, judgeOwners, judgeSending } from "./judge-wallets.ts";
import { count, countOutcome, type Link, type Stage } from "./stage.ts";
import { waitUntilQuiet } from "./wait-until-quiet.ts";

const OPEN_CHANGES = ["QUEUED", "PENDING", "BROADCAST", "MINED"];

/** Returns the violations; none of them stops the judgement. */
export async function judgeRound(stage: Stage): Promise<string[]> {
  stage.outcomes = {};
  await claimAgain(stage);
  const open = await waitUntilQuiet(stage);
  const broken = open.map((row) => `waits forever: ${row}`);
  const all: ChainTransfer[] = [];
  for (const chain of stage.chains) {
    const transfers = await readTransfers(chain.node.rpcUrl, chain.network);
    all.push(...transfers);
    broken.push(...(await judgeNetwork(stage, chain, transfers)));
  }
  await countOwnerChanges(stage);
  for (const { client, userId, walletAddress } of stage.merchants) {
    const { body } = await client.get("/v1/transactions/summary");
    broken.push(...judgeSummary(userId, walletAddress, body.data.summary, all));
  }
  const wallets = stage.merchants.flatMap((merchant) => stage.chains.map((chain) => ({ merchant, chain })));
  const stuck = wallets.map(({ merchant, chain }) => judgeSending(stage, chain, merchant));
  return [...broken, ...(await Promise.all(stuck)).flat()];
}

/** Retries claims that were only hints, or expired while a reorganisation had removed their transaction: as a payer who opens the page again. */
async function claimAgain(stage: Stage): Promise<void> {
  if (stage.links.every(({ claimed }) => claimed === undefined || claimed.isProven)) return;
  await waitUntilQuiet(stage);
  for (const link of stage.links) {
    const { id, network, claimed } = link;
    if (!claimed || claimed.isProven) continue;
    const chain = stage.chains.find((one) => one.network === network);
    if (!(await chain?.rpc("eth_getTransactionReceipt", [claimed.hash]))) continue;
    const { body } = await stage.payers.get(`/api/v1/public/payment-links/${id}/data`);
    if (body.status === "PAID") continue;
    count(stage, "claims made again");
    await claimUntilAccepted(stage, link);
  }
}

async function judgeNetwork(
  stage: Stage,
  chain: CampaignChain,
  transfers: readonly ChainTransfer[],
): Promise<string[]> {
  const { network, node } = chain;
  const broken: string[] = [];
  for (const link of stage.links)
    if (link.network === network) broken.push(...(await judgeShownLink(stage, link, transfers)));
  for (const operation of stage.operations) {
    if (operation.network !== network) continue;
    const { kind, id, merchant } = operation;
    const path = kind === "SEND" ? `/v1/wallets/sends/${id}` : `/v1/refunds/${id}`;
    const { body } = await merchant.client.get(path);
    broken.push(...judgeOperation(operation, merchant.walletAddress, body, transfers));
    if (body.status === "FAILED") countOutcome(stage, `${kind} FAILED ${body.reason}`);
    if (body.stillPossible) countOutcome(stage, `${kind} FAILED and still possible`);
  }
  for (const merchant of stage.merchants) {
    broken.push(...(await judgeBalance(chain, merchant, transfers)));
    broken.push(...(await judgeOwners(stage, chain, merchant)));
  }
  await assertInvariants(stage.sql, node).catch((error: Error) =>
    broken.push(`invariants on ${network}: ${error.message}`),
  );
  return broken;
}

async function judgeShownLink(
  stage: Stage,
  link: Link,
  transfers: readonly ChainTransfer[],
): Promise<string[]> {
  const merchant = stage.merchants.find(({ userId }) => userId === link.merchantId);
  if (!merchant) throw new Error(`${link.id} has no merchant`);
  const { body } = await merchant.client.get(`/v1/payment-links/${link.id}`);
  const refunds = stage.operations.filter(({ linkId }) => linkId === link.id);
  const money = readLinkMoney(link, transfers, refunds);
  if (await isShownLate(stage, link, payingTransfers(link, money)[0])) {
    countOutcome(stage, "links not judged: the stranger's block is older than the payment");
    return [];
  }
  if (money.authorized.length + money.sent.length > 1)
    countOutcome(stage, `links paid twice: ${body.exception}`);
  return judgeLink(link, body, money);
}

/**
 * A reorganisation can put the stranger's transaction into a block whose time is before the payer showed the authorization. To the service
 * that is a payment between strangers, and it refuses the authorization as used.
 */
async function isShownLate(
  { sql }: Stage,
  { id, way }: Link,
  paying: ChainTransfer | undefined,
): Promise<boolean> {
  if (way !== "authorization and stranger" || !paying) return false;
  const late = await sql`
    select
    from payments
    where link_id = ${id} and reason = 'NONCE_USED' and created_at >= to_timestamp(${paying.blockTimeS}::int)`;
  return late.length > 0;
}

async function countOwnerChanges(stage: Stage): Promise<void> {
  for (const { id, merchant, isConfirmed } of stage.ownerChanges) {
    if (!isConfirmed) continue;
    const { body } = await merchant.client.get(`/v1/wallets/owners/changes/${id}`);
    const isOpen = OPEN_CHANGES.includes(body.status);
    countOutcome(
      stage,
      `owner change ${body.status}${isOpen ? ` ${JSON.stringify(body.networks)}` : ""}`.slice(0, 200),
    );
  }
}
