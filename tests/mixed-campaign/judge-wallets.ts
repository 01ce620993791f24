/** What must hold of wallets at the end of a round: their balances, their owners, and that each can send again. */
import { readOwnerState } from "../../core/chain/owner-state.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { ownerIdOf } from "../../core/domain/owner.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import type { ChainTransfer } from "../support/invariants.ts";
import type { Merchant } from "../support/sign-up.ts";
import type { CampaignChain } from "./campaign-chain.ts";
import { sumOf } from "./judge-money.ts";
import { type Operation, type Stage, WALLET_UNITS } from "./stage.ts";
import { sendMoney } from "./use-wallets.ts";

const RPC_TIMEOUT_MS = 5_000;
const PREPARE_ATTEMPTS = 20;
const PREPARE_PAUSE_MS = 500;
const CONFIRM_TIMEOUT_MS = 45_000;
const CONFIRM_POLL_MS = 300;

/** The campaign's own sum: receipts and balance are two ways to the same amount. */
export async function judgeBalance(
  { node, network }: CampaignChain,
  { walletAddress }: Merchant,
  transfers: readonly ChainTransfer[],
): Promise<string[]> {
  const balance = await readUsdcBalance(node.rpcUrl, walletAddress as Hex);
  const came = sumOf(transfers.filter(({ to }) => to === walletAddress));
  const left = sumOf(transfers.filter(({ from }) => from === walletAddress));
  const expected = WALLET_UNITS + came - left;
  return balance === expected
    ? []
    : [`the wallet ${walletAddress} holds ${balance} on ${network} instead of ${expected}`];
}

/** The owners that the service shows and those whose events it recorded are the account's own. */
export async function judgeOwners(
  { sql }: Stage,
  { node, network }: CampaignChain,
  merchant: Merchant,
): Promise<string[]> {
  const account = merchant.walletAddress as Hex;
  const chain = openChain({ network, urls: [node.rpcUrl], timeoutMs: RPC_TIMEOUT_MS });
  const { isDeployed, owners } = await readOwnerState(chain, account).finally(() => chain.close());
  if (!isDeployed) return [];
  const real = owners.filter((owner) => owner !== undefined);
  const { body } = await merchant.client.get(`/v1/wallets/owners?network=${network}`);
  const shown = (body.owners as readonly { ownerId: string }[]).map(({ ownerId }) => ownerId);
  const what = `owners of ${merchant.userId} on ${network}`;
  const broken: string[] = [];
  if (shown.toSorted().join() !== real.map(ownerIdOf).toSorted().join())
    broken.push(`${what}: ${shown.join()} are shown, the account has ${real.map(ownerIdOf).join()}`);
  const recorded = await readRecordedOwners(sql, network, account);
  // the first owner came with the account's deployment
  if (recorded.some((owner) => !real.includes(owner)) || real.length - recorded.length > 1)
    broken.push(`${what}: events tell of ${recorded.length}, the account has ${real.length}`);
  return broken;
}

async function readRecordedOwners(sql: Sql, network: string, account: Hex): Promise<Hex[]> {
  const rows = await sql<{ subject: Hex; type: string }[]>`
    select distinct on (subject) subject, type
    from account_changes
    where network = ${network} and wallet_address = ${account} and type in ('OWNER_ADDED', 'OWNER_REMOVED')
    order by subject, block_number desc, log_index desc`;
  return rows.filter(({ type }) => type === "OWNER_ADDED").map(({ subject }) => subject);
}

/** Whatever has failed before, a new send is accepted and CONFIRMED. */
export async function judgeSending(
  stage: Stage,
  chain: CampaignChain,
  merchant: Merchant,
): Promise<string[]> {
  const what = `the wallet of ${merchant.userId} on ${chain.network} is stuck`;
  const operation = await sendInsistently(stage, chain, merchant);
  if (!operation) return [`${what}: no send is accepted`];
  const deadline = Date.now() + CONFIRM_TIMEOUT_MS;
  for (;;) {
    const { body } = await merchant.client.get(`/v1/wallets/sends/${operation.id}`);
    if (body.status === "CONFIRMED") return [];
    if (body.status === "FAILED" || Date.now() > deadline) return [`${what}: ${JSON.stringify(body)}`];
    await Bun.sleep(CONFIRM_POLL_MS);
  }
}

/** Again while another operation of the wallet is not known to be over, or the indexer is behind. */
async function sendInsistently(
  stage: Stage,
  chain: CampaignChain,
  merchant: Merchant,
): Promise<Operation | undefined> {
  for (let attempt = 0; attempt < PREPARE_ATTEMPTS; attempt++) {
    const operation = await sendMoney(stage, merchant, chain);
    if (operation?.isConfirmed) return operation;
    await Bun.sleep(PREPARE_PAUSE_MS);
  }
  return undefined;
}
