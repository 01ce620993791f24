/** The input of the hostile campaign's judge: transfers with everything the chain says about them, the payers' record, and the ledger's rows. */
import { decodeFunctionData, erc20Abi, keccak256, stringToBytes } from "viem";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { callRpc, callRpcBatch } from "../../local/chain/rpc.ts";
import { type ChainTransfer, readTransfers } from "../support/invariants.ts";
import type { Deed, HostileLink, Stage } from "./hostile-stage.ts";

const NETWORK = "base-sepolia";
const USDC = NETWORKS[NETWORK].usdc.address;
const AUTHORIZATION_USED = keccak256(stringToBytes("AuthorizationUsed(address,bytes32)"));
const BATCH = 100;
/** `transfer(address,uint256)`, and the digits of a tag behind it. */
const CALL_DIGITS = 2 + 2 * (4 + 32 + 32);
const TAG_DIGITS = 32;

/** A transfer to a wallet of ours, with everything the chain says about it. */
export type Paid = ChainTransfer & {
  nonce: Hex | undefined;
  sender: Hex;
  tag: Hex | undefined;
  deed: Deed | undefined;
};

export type Booked = {
  txHash: string;
  logIndex: number;
  linkId: string | null;
  pays: boolean;
  settledBy: string | null;
  candidates: string[] | null;
};

export type LinkRow = { id: string; status: string; exception: string; settledBy: string | null };

export type Case = {
  links: ReadonlyMap<string, HostileLink>;
  rows: ReadonlyMap<string, LinkRow>;
  paid: readonly Paid[];
  booked: ReadonlyMap<string, Booked>;
  paying: ReadonlyMap<string, Paid>;
  /** When the mined relay was signed. */
  signedAtMs: ReadonlyMap<string, number>;
};

export async function openCase({ sql, chain, deeds }: Stage, links: readonly HostileLink[]): Promise<Case> {
  const wallets = new Set<string>(links.map(({ wallet }) => wallet));
  const transfers = (await readTransfers(chain.rpcUrl, NETWORK)).filter(({ to }) => wallets.has(to));
  const [paid, rows, booked, attempts] = await Promise.all([
    describe(chain.rpcUrl, transfers, deeds),
    sql<LinkRow[]>`
      select id, status, exception, settled_by from payment_links where id = any(${links.map(({ id }) => id)}::text[])`,
    sql<Booked[]>`
      select tx_hash, log_index, link_id, pays, settled_by, candidates from transfers where status <> 'ORPHANED'`,
    sql<{ txHash: string; createdAt: Date }[]>`select tx_hash, created_at from relay_attempts`,
  ]);
  const byPlace = new Map(booked.map((row) => [placeOf(row), row]));
  return {
    links: new Map(links.map((link) => [link.id, link])),
    rows: new Map(rows.map((row) => [row.id, row])),
    paid,
    booked: byPlace,
    paying: new Map(
      paid.flatMap((one) => {
        const row = byPlace.get(placeOf(one));
        return row?.pays && row.linkId ? [[row.linkId, one] as const] : [];
      }),
    ),
    signedAtMs: new Map(attempts.map(({ txHash, createdAt }) => [txHash, createdAt.getTime()])),
  };
}

/** Adds nonces, senders and tags, all read from the chain, and the intent of the campaign's own payers. */
async function describe(
  rpcUrl: string,
  transfers: readonly ChainTransfer[],
  deeds: readonly Deed[],
): Promise<Paid[]> {
  const used = (await callRpc(rpcUrl, "eth_getLogs", [
    { fromBlock: "0x0", toBlock: "latest", address: USDC, topics: [AUTHORIZATION_USED] },
  ])) as { transactionHash: string; topics: [Hex, Hex, Hex] }[];
  const nonces = new Map(
    used.map(({ transactionHash, topics }) => [`${transactionHash}:0x${topics[1].slice(26)}`, topics[2]]),
  );
  const sent = await readTransactions(rpcUrl, [...new Set(transfers.map(({ txHash }) => txHash))]);
  const byPayer = Map.groupBy(deeds, ({ payer }) => payer as string);
  return transfers.map((transfer) => {
    const nonce = nonces.get(`${transfer.txHash}:${transfer.from}`);
    const transaction = sent.get(transfer.txHash);
    if (!transaction) throw new Error(`the chain does not know ${transfer.txHash}`);
    const deed = byPayer
      .get(transfer.from)
      ?.find((one) => (nonce ? one.nonce === nonce : one.txHash === transfer.txHash));
    return { ...transfer, nonce, deed, sender: transaction.from, tag: tagOf(transaction, transfer) };
  });
}

type Transaction = { hash: string; from: Hex; to: Hex; input: Hex };

async function readTransactions(
  rpcUrl: string,
  hashes: readonly string[],
): Promise<Map<string, Transaction>> {
  const found = new Map<string, Transaction>();
  for (let start = 0; start < hashes.length; start += BATCH) {
    const calls = hashes
      .slice(start, start + BATCH)
      .map((hash) => ({ method: "eth_getTransactionByHash", params: [hash] }));
    for (const one of (await callRpcBatch(rpcUrl, calls)) as Transaction[]) found.set(one.hash, one);
  }
  return found;
}

/** 16 bytes appended to a plain transfer by its sender. */
function tagOf({ from, to, input }: Transaction, transfer: ChainTransfer): Hex | undefined {
  if (to !== USDC || from !== transfer.from || input.length < CALL_DIGITS + TAG_DIGITS) return undefined;
  const { functionName } = decodeFunctionData({ abi: erc20Abi, data: input });
  return functionName === "transfer" ? `0x${input.slice(CALL_DIGITS, CALL_DIGITS + TAG_DIGITS)}` : undefined;
}

export function placeOf({ txHash, logIndex }: { txHash: string; logIndex: number }): string {
  return `${txHash}:${logIndex}`;
}
