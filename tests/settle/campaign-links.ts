/** The links and senders of the ledger campaign, and the invariants of its links in every committed state. */
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { lowerCreatedBlock } from "../../db/links/created-block.ts";
import { endClaim } from "../../db/links/end-claims.ts";
import { expireLinks } from "../../db/links/expire-links.ts";
import { insertLink } from "../../db/links/links.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { openUse } from "../../db/links/uses.ts";
import { failPayments, lockPayments } from "../../db/payments/payments.ts";
import type { Payment } from "../../db/schema.ts";
import { callRpcBatch } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type Lab, NETWORK } from "../support/indexer-lab.ts";

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

/** As the API makes it, with a tag and an amount of its own. */
export async function makeLink(
  { sql }: Lab,
  { userId }: { userId: string },
  amountUnits: bigint,
): Promise<string> {
  const id = newLinkId();
  await sql.begin((tx) =>
    insertLink(tx, {
      ...{ id, userId, network: NETWORK, tag: linkTag(id), description: "Coffee" },
      ...{ amountUnits, expiresInHours: 1 },
    }),
  );
  await lowerCreatedBlock(sql, id);
  return id;
}

/** Paid by any number of payers, or by two. */
export async function makeReusable(
  { sql }: Lab,
  { userId }: { userId: string },
  { amountUnits, maxPayments }: { amountUnits: bigint; maxPayments: number | null },
): Promise<string> {
  const id = newLinkId();
  await sql.begin((tx) =>
    insertLink(tx, {
      ...{ id, userId, network: NETWORK, tag: linkTag(id), description: "Ticket", amountUnits },
      ...{ expiresInHours: 1, reuse: { isReusable: true, maxPayments, minUnits: null, maxUnits: null } },
    }),
  );
  return id;
}

/** A payer opens the page of a reusable link. */
export async function makeUse({ sql }: Lab, parentId: string): Promise<void> {
  const id = newLinkId();
  const given = { parentId, id, tag: linkTag(id), amountUnits: undefined, opener: "203.0.113.1" };
  await sql.begin((tx) => openUse(tx, given));
  await lowerCreatedBlock(sql, id);
}

export function listActive({ sql }: Lab): Promise<{ id: string; userId: string }[]> {
  return sql<{ id: string; userId: string }[]>`
    select id, user_id from payment_links where status = 'ACTIVE' and not is_reusable order by id`;
}

export async function expireNow({ sql }: Lab, id: string): Promise<void> {
  await sql`
    update payment_links set expires_at = now() - interval '1 second' where id = ${id} and status = 'ACTIVE'`;
  await sql.begin((tx) => expireLinks(tx, 10));
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
            and (settled_by = 'merchant' or amount_units in (link.amount_units, link.pay_amount_units))
        )`;
    if (wrong.length > 0)
      throw new Error(`links whose state differs from the ledger: ${JSON.stringify(wrong)}`);
  }
}

/** As the worker does it. */
export async function failOne({ sql }: Lab, { id, linkId }: Payment): Promise<void> {
  await sql.begin(async (tx) => {
    await lockPayments(tx, [id]);
    await lockLinks(tx, linkId ? [linkId] : []);
    await failPayments(tx, [{ id, reason: "EXPIRED_TRANSFER" }]);
  });
}

export async function endOne({ sql }: Lab, id: string): Promise<void> {
  await sql.begin((tx) => endClaim(tx, { id, state: "EXPIRED", reason: "not_found", isProven: false }));
}
