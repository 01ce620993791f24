/** The senders of the ledger campaign, and the invariants of its links in every committed state. */
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpcBatch } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import type { Lab } from "../support/indexer-lab.ts";

const SENDER_WEI = "0xde0b6b3a7640000";
const SENDER_UNITS = 10n ** 9n;
const FUND_BATCH = 500;

/** Funded accounts that send one transaction each. */
export async function makeSenders({ chain }: Lab, count: number): Promise<PrivateKeyAccount[]> {
  const accounts = Array.from({ length: count }, () => privateKeyToAccount(generatePrivateKey()));
  const addresses = accounts.map(lowerOf);
  for (let start = 0; start < count; start += FUND_BATCH) {
    const batch = addresses.slice(start, start + FUND_BATCH);
    const calls = batch.map((address) => ({ method: "anvil_setBalance", params: [address, SENDER_WEI] }));
    await callRpcBatch(chain.rpcUrl, calls);
    await fundUsdc(chain.rpcUrl, batch, SENDER_UNITS);
  }
  return accounts;
}

export function lowerOf({ address }: PrivateKeyAccount): Hex {
  return address.toLowerCase() as Hex;
}

/** Invariants of every committed state, not only of the final one. */
export async function watchLinks({ sql }: Pick<Lab, "sql">, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const wrong = await sql<{ id: string; status: string }[]>`
      select link.id, link.status
      from payment_links link
      where link.status in ('ACTIVE', 'EXPIRED') and exists (
          select from transfers
          where link_id = link.id and status <> 'ORPHANED' and amount_units in (link.amount_units, link.pay_amount_units)
        )
        or link.status = 'PAID' and not exists (
          select from transfers
          where link_id = link.id
            and status = 'CONFIRMED'
            and pays
            and amount_units in (link.amount_units, link.pay_amount_units)
        )`;
    if (wrong.length > 0) throw new Error(`links that are not what the books say: ${JSON.stringify(wrong)}`);
  }
}
