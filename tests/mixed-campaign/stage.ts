/** The environment of the mixed campaign: a service on two networks, its merchants, and a record of what everybody did. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { setUpOn } from "../support/owners.ts";
import { createTestDatabase } from "../support/postgres.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type ProcessName, type Service, startService } from "../support/world.ts";
import {
  type Account,
  type CampaignChain,
  closeCampaignChain,
  mineBlock,
  openCampaignChain,
  REORG_DEPTH_MAX,
  takeTurn,
} from "./campaign-chain.ts";
import { openRetryingClient } from "./retrying-client.ts";

export const PROCESSES: readonly ProcessName[] = [
  "api",
  "api-2",
  "worker",
  "worker-2",
  "indexer",
  "indexer-2",
];

/** How the payers of a link pay it. */
export type Way =
  | "authorization"
  | "two authorizations"
  | "tag"
  | "unique amount"
  | "authorization and transfer"
  | "authorization and stranger"
  | "authorization and cancellation"
  | "claimed transfer"
  | "use of a reusable link";

/** What a payer and a merchant know of a link, and who paid it how: no account pays two links. */
export type Link = {
  id: string;
  network: NetworkId;
  merchantId: string;
  wallet: Hex;
  amountUnits: bigint;
  /** The unique amount, where the link has one. */
  payAmountUnits: bigint | undefined;
  tag: Hex;
  way: Way;
  madeAtMs: number;
  /** Accounts that showed the service an authorization, and accounts that sent a transfer. */
  authorizers: Hex[];
  senders: Hex[];
  /** The transfer that its payer claims; `isProven`: the service has accepted the payer's signature. */
  claimed?: { hash: Hex; payer: Account; isProven: boolean };
  /** A payer was answered that it is paid. */
  isToldPaid: boolean;
};

/** A send or a refund, to an address that nothing else pays. */
export type Operation = {
  id: string;
  kind: "SEND" | "REFUND";
  network: NetworkId;
  merchant: Merchant;
  to: Hex;
  units: bigint;
  /** Of a refund. */
  linkId: string | undefined;
  /** Its confirmation was accepted. */
  isConfirmed: boolean;
};

export type OwnerChange = { id: string; merchant: Merchant; isConfirmed: boolean };

export type Stage = {
  random: () => number;
  service: Service;
  sql: Sql;
  chains: readonly CampaignChain[];
  /** Their clients retry: see openRetryingClient. */
  merchants: readonly Merchant[];
  /** A retrying client without a session, for payers. */
  payers: Client;
  links: Link[];
  operations: Operation[];
  ownerChanges: OwnerChange[];
  counts: Record<string, number>;
  /** How links, operations and owner changes have ended, as of the last judgement. */
  outcomes: Record<string, number>;
  /** Errors of the campaign's own steps, and answers that nobody should get. */
  unexpected: string[];
  stop: () => Promise<void>;
};

const NETWORKS_USED: readonly NetworkId[] = ["base-sepolia", "base"];
const MERCHANTS = 3;
export const WALLET_UNITS = 10_000_000_000n;
const CONFIRMATIONS = String(REORG_DEPTH_MAX + 1);
/** The merchants' money lies deeper than a reorganisation reaches. */
const BLOCKS_FIRST = 10;
const BLOCK_TIME_MS = 400;
const CONNECTIONS = 8;
/** Budgets and rate limits are another subject. */
const ENV = {
  SEND_GAS_PER_DAY: "100000000000",
  RATE_LIMITS: "0",
  CONFIRMATIONS_BASE: CONFIRMATIONS,
  CONFIRMATIONS_BASE_SEPOLIA: CONFIRMATIONS,
};

export function count({ counts }: Pick<Stage, "counts">, name: string, by = 1): void {
  counts[name] = (counts[name] ?? 0) + by;
}

export function countOutcome({ outcomes }: Pick<Stage, "outcomes">, name: string): void {
  outcomes[name] = (outcomes[name] ?? 0) + 1;
}

/** `accounts`: payers on each network. Both chains have a block every 400 ms from now on. */
export async function openStage(random: () => number, accounts: number): Promise<Stage> {
  const [db, smtp, ...chains] = await Promise.all([
    createTestDatabase(),
    startTestMailbox(),
    ...NETWORKS_USED.map((network) => openCampaignChain(network, { random, accounts })),
  ]);
  const [first, second] = chains.map(asServiceSeesIt);
  if (!first || !second) throw new Error("the campaign has two networks");
  const sql = openDatabase(db.url, { name: "campaign", maxConnections: CONNECTIONS });
  const service = await startService({
    ...{ db, smtp, chain: first, otherChain: second, env: ENV, processes: PROCESSES },
  });
  const baseUrl = () => service.baseUrlOf(random() < 0.5 ? "api" : "api-2");
  const merchants: Merchant[] = [];
  while (merchants.length < MERCHANTS) merchants.push(await openMerchant(service.baseUrl, chains, baseUrl));
  for (const chain of chains)
    await takeTurn(chain, () => chain.rpc("anvil_mine", [`0x${BLOCKS_FIRST.toString(16)}`]));
  const unexpected: string[] = [];
  let isStopped = false;
  const miners = chains.map(async (chain) => {
    while (!isStopped) {
      await mineBlock(chain).catch((error: unknown) => unexpected.push(`mine: ${error}`));
      await Bun.sleep(BLOCK_TIME_MS);
    }
  });
  const stop = async () => {
    isStopped = true;
    await Promise.all(miners);
    await sql.end({ timeout: 1 });
    await service.stop();
    await Promise.all([...chains.map(closeCampaignChain), db.drop(), smtp.stop()]);
  };
  return {
    ...{ random, service, sql, chains, merchants, stop, unexpected },
    payers: openRetryingClient(openClient(service.baseUrl), baseUrl),
    ...{ links: [], operations: [], ownerChanges: [], counts: {}, outcomes: {} },
  };
}

function asServiceSeesIt({ node, proxies }: CampaignChain) {
  return { chainId: node.chainId, rpcUrl: proxies.map(({ url }) => url).join(",") };
}

/** Has a wallet with money on every network. Signs up while nothing fails. */
async function openMerchant(
  serviceUrl: string,
  chains: readonly CampaignChain[],
  baseUrl: () => string,
): Promise<Merchant> {
  const merchant = await signUp(serviceUrl);
  const answer = await setUpOn(merchant, "base");
  if (answer.status !== 200) throw new Error(`setup: ${answer.status} ${answer.text}`);
  for (const { node } of chains) await fundUsdc(node.rpcUrl, merchant.walletAddress as Hex, WALLET_UNITS);
  return { ...merchant, client: openRetryingClient(merchant.client, baseUrl) };
}
