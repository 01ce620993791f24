/**
 * The invariants of a payment system, compared with the chain itself: for the end of every chaos, reorganisation or load run.
 * The chain is read here by other means than the indexer's: receipts of every block, not log queries.
 */
import { decodeTransferLog } from "../../core/chain/usdc.ts";
import { type Hex, NETWORK_IDS, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { callRpc, callRpcBatch } from "../../local/chain/rpc.ts";
import { checkOperations } from "./operation-invariants.ts";

export type ChainTransfer = {
  blockNumber: number;
  blockHash: string;
  blockTimeS: number;
  txHash: string;
  logIndex: number;
  from: string;
  to: string;
  amountUnits: bigint;
};

const BATCH = 50;

/**
 * Throws one Error that lists every broken invariant. Call when the cursor is at the head and nothing is in flight.
 * `hasLostRows`: the database has lost its last transactions, so that nonces used by lost relays have no row.
 */
export async function assertInvariants(
  sql: Sql,
  chain: { rpcUrl: string; chainId: number },
  options: { mayBeInFlight?: boolean; hasLostRows?: boolean } = {},
): Promise<void> {
  const network = NETWORK_IDS.find((id) => NETWORKS[id].chainId === chain.chainId);
  if (!network) throw new Error(`chain id ${chain.chainId} is not one of ours`);
  const transfers = await readTransfers(chain.rpcUrl, network);
  const faults = [
    ...(await checkHistory(sql, network, transfers)),
    ...(await checkPendingRows(sql, network)),
    ...(await checkLinks(sql, network)),
    ...(await checkPayments(sql, network, options.mayBeInFlight ?? false)),
    ...(await checkPaymentTables(sql, network)),
    ...(options.hasLostRows ? [] : await checkRelays(sql, network)),
    ...(await checkOperations(sql, network)),
    ...(await checkBudgets(sql, network)),
    ...(await checkReorgTraces(sql, network)),
  ];
  if (faults.length > 0)
    throw new Error(`${faults.length} broken invariant(s):\n${faults.slice(0, 30).join("\n")}`);
}

/** Every USDC transfer above zero on the canonical chain from block `from` on, from the receipts of every block. */
export async function readTransfers(
  rpcUrl: string,
  network: NetworkId,
  { from = 0, to }: { from?: number; to?: number } = {},
): Promise<ChainTransfer[]> {
  const head = to ?? Number(await callRpc(rpcUrl, "eth_blockNumber"));
  const found: ChainTransfer[] = [];
  for (let start = from; start <= head; start += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, head - start + 1) }, (_, index) => start + index);
    const answers = await callRpcBatch(
      rpcUrl,
      numbers.flatMap((number) => {
        const block = `0x${number.toString(16)}`;
        return [
          { method: "eth_getBlockByNumber", params: [block, false] },
          { method: "eth_getBlockReceipts", params: [block] },
        ];
      }),
    );
    for (const [index, number] of numbers.entries()) {
      const block = answers[index * 2] as { hash: string; timestamp: string };
      const receipts = answers[index * 2 + 1] as Receipt[];
      const logs = receipts.flatMap((receipt) => receipt.logs);
      for (const log of logs) {
        const transfer = log.address === NETWORKS[network].usdc.address ? decodeTransferLog(log) : undefined;
        if (!transfer || transfer.amountUnits === 0n) continue;
        found.push({
          ...transfer,
          blockNumber: number,
          blockHash: block.hash,
          blockTimeS: Number(block.timestamp),
          txHash: log.transactionHash,
          logIndex: Number(log.logIndex),
        });
      }
    }
  }
  return found;
}

type Receipt = {
  logs: { address: string; topics: Hex[]; data: Hex; transactionHash: string; logIndex: string }[];
};

/** Every transfer of a wallet is in the history exactly once a side, with the chain's values; nothing else is. */
async function checkHistory(
  sql: Sql,
  network: NetworkId,
  transfers: readonly ChainTransfer[],
): Promise<string[]> {
  const wallets = await sql<{ address: string; userId: string; indexedFrom: bigint | null }[]>`
    select address, user_id, indexed_from from wallets where network = ${network}`;
  const userOf = new Map(wallets.map((wallet) => [wallet.address, wallet.userId]));
  const expected = transfers.flatMap((transfer) => {
    const place = `${transfer.txHash}:${transfer.logIndex}:${transfer.blockNumber}:${transfer.amountUnits}`;
    const to = userOf.get(transfer.to);
    const from = userOf.get(transfer.from);
    return [
      ...(to ? [`${place}:${to}:in:${transfer.from}:${transfer.blockTimeS}`] : []),
      ...(from ? [`${place}:${from}:out:${transfer.to}:${transfer.blockTimeS}`] : []),
    ];
  });
  const rows = await sql<{ place: string }[]>`
    select concat_ws(
      ':', hex_of(tx_hash), log_index, block_number, amount_units, user_of(owner), case when type = 'SEND' then 'out' else 'in' end,
      hex_of(counterparty), extract(epoch from detected_at)::bigint
    ) as place
    from transactions
    where network = ${network} and status in ('DETECTED', 'CONFIRMED')`;
  return compareBags(
    "history",
    expected,
    rows.map((row) => row.place),
  );
}

/** What is PENDING in the history waits for something: a payment, a claim or a send. */
async function checkPendingRows(sql: Sql, network: NetworkId): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id
    from transactions
    where network = ${network} and status = 'PENDING' and operation_item_id is null
      and not exists (select from payments where payments.id = payment_id and payments.is_open)
      and not exists (select from claims where claims.id = claim_id and claims.state = 'OPEN')`;
  return rows.map(({ id }) => `history row ${id} is PENDING for nothing`);
}

/** A link is PAID by exactly one canonical transfer of a value it asks for or its merchant accepted; sums agree; counters agree with rows. */
async function checkLinks(sql: Sql, network: NetworkId): Promise<string[]> {
  const broken = await sql<{ id: string; status: string; payers: number; fault: string }[]>`
    with paying as (
      select link_id, count(*)::int as payers, min(block_time) as block_time, sum(amount_units) as units, bool_and(status = 'CONFIRMED') as deep, (array_agg(to_address))[1] as to_address, min(settled_by) as settled_by
      from transfers
      where network = ${network} and pays and status <> 'ORPHANED'
      group by link_id
    )
    select link.id, link.status, coalesce(payers, 0) as payers,
      case
        when coalesce(payers, 0) > 1 then 'paid by several transfers'
        when link.status = 'PAID' and payers is null then 'PAID by no transfer'
        when payers = 1 and deep and link.status <> 'PAID' then 'its transfer is confirmed but it is not PAID'
        when link.status = 'PAID' and link.paid_at <> paying.block_time then 'paid_at is not the block time'
        when payers = 1 and paying.settled_by <> 'merchant' and units <> link.amount_units and units is distinct from link.pay_amount_units
          then 'paid by another amount'
        when link.status = 'PAID' and units <> link.paid_units then 'PAID with other units than its transfer has'
        when link.settled_by is distinct from paying.settled_by then 'settled_by is not its transfer''s'
        when payers = 1 and to_address <> link.recipient then 'paid by a transfer to somebody else'
        when payers = 1 and block_time > expires_at and exception = 'NONE' then 'late but not marked'
        when refunded_units > coalesce(
            (select sum(amount_units) from transfers where link_id = link.id and status = 'CONFIRMED'), 0
          ) then 'more refunded than came'
        when link.status in ('ACTIVE', 'EXPIRED') and exists (
          select from transfers
          where link_id = link.id and transfers.status <> 'ORPHANED'
            and transfers.amount_units in (link.amount_units, link.pay_amount_units)
        ) then 'asks for money that it has'
        when link.status = 'PENDING' and payers is null and not exists (
          select from payments where link_id = link.id and state in ('QUEUED', 'SIGNED', 'BROADCAST')
        ) and not exists (
          select from claims where link_id = link.id and state = 'OPEN'
        ) then 'PENDING for nothing'
      end as fault
    from payment_links link
    left join paying on paying.link_id = link.id
    where link.network = ${network}`;
  const counters = await sql<{ userId: string; status: string }[]>`
    select user_id, status
    from (
      select user_id, status, count(*) filter (where parent_id is null) as n, sum(coalesce(paid_units, amount_units)) as units from payment_links group by 1, 2
      union all
      select user_id, status, -count, -amount_units from link_counts
      union all
      select user_id, status, -count, -amount_units from link_count_changes
    ) parts
    group by 1, 2
    having sum(n) <> 0 or sum(units) <> 0`;
  return [
    ...broken.filter((row) => row.fault).map((row) => `link ${row.id} ${row.status}: ${row.fault}`),
    ...counters.map((row) => `link counters of ${row.userId} ${row.status} differ from the rows`),
  ];
}

/** A payment ends as one canonical transfer, or FAILED with a reason and without one. */
async function checkPayments(sql: Sql, network: NetworkId, mayBeInFlight: boolean): Promise<string[]> {
  const rows = await sql<{ id: string; state: string; fault: string | null }[]>`
    select payment.id, payment.state,
      case
        when payment.state in ('MINED', 'CONFIRMED') and transfer.id is null then 'settled without a transfer'
        when payment.state in ('MINED', 'CONFIRMED')
          and (transfer.tx_hash, transfer.log_index, transfer.block_number) is distinct from (payment.tx_hash, payment.log_index, payment.block_number)
          then 'settled elsewhere than it says'
        when payment.state = 'CONFIRMED' and transfer.status <> 'CONFIRMED' then 'confirmed before its transfer'
        when payment.state in ('QUEUED', 'SIGNED', 'BROADCAST') and transfer.id is not null then 'settled on the chain but still open'
        when payment.state in ('QUEUED', 'SIGNED', 'BROADCAST') and not ${mayBeInFlight}::boolean then 'never ended'
        when payment.state = 'FAILED' and transfer.pays then 'FAILED but pays its link'
        when transfer.link_id <> payment.link_id then 'its transfer counts for another link'
        when (transfer.from_address, transfer.authorization_nonce) <> (payment.payer, payment.nonce)
          then 'settled by a transfer of another authorization'
        when (payment.state = 'FAILED') <> (payment.reason is not null) then 'FAILED without a reason'
      end as fault
    from payments payment
    left join transfers transfer on transfer.payment_id = payment.id and transfer.status <> 'ORPHANED'
    where payment.network = ${network} and payment.link_id is not null`;
  return rows.flatMap((row) => (row.fault ? [`payment ${row.id} ${row.state}: ${row.fault}`] : []));
}

/** One live transaction a nonce, and no gap below the next one. */
async function checkRelays(sql: Sql, network: NetworkId): Promise<string[]> {
  const rows = await sql<{ relayer: string; fault: string }[]>`
    select relayer, 'has a gap or a double between its nonces' as fault
    from relays
    where network = ${network} and state <> 'LOST'
    group by relayer
    having count(distinct nonce) <> count(*)
      or max(nonce) - min(nonce) + 1 <> count(*) + (
        select count(distinct lost.nonce)
        from relays lost
        where lost.network = ${network} and lost.relayer = relays.relayer and lost.state = 'LOST'
          and not exists (
            select from relays live
            where live.network = lost.network and live.relayer = lost.relayer and live.nonce = lost.nonce and live.state <> 'LOST'
          )
      )`;
  return rows.map((row) => `relayer ${row.relayer} ${row.fault}`);
}

/** A day's budget counts what its relays are charged, no more and no less; a relay in a block is settled, one that waits is not. */
async function checkBudgets(sql: Sql, network: NetworkId): Promise<string[]> {
  const rows = await sql<{ fault: string }[]>`
    select 'budget ' || scope || ' of ' || subject || ' differs from its charges' as fault
    from relay_budgets budget
    left join lateral (
      select
        coalesce(sum(amount) filter (where settled), 0) as used,
        coalesce(sum(amount) filter (where not settled), 0) as reserved
      from relay_charges charge
      where (charge.network, charge.scope, charge.subject, charge.day)
        = (budget.network, budget.scope, budget.subject, budget.day)
    ) charged on true
    where network = ${network} and (budget.used, budget.reserved) <> (charged.used, charged.reserved)
    union all
    select 'relay ' || relays.id || ' ' || relays.state || ' has a charge ' || scope || ' that is not settled'
    from relay_charges
    join relays on relays.id = relay_charges.relay_id
    where relays.network = ${network} and relays.state in ('MINED', 'CONFIRMED', 'LOST') and not settled`;
  return rows.map((row) => row.fault);
}

/** The tables that triggers keep name exactly the open payments, and each payment under its relay. */
async function checkPaymentTables(sql: Sql, network: NetworkId): Promise<string[]> {
  const rows = await sql<{ fault: string }[]>`
    select 'payment ' || coalesce(payment.id, open.payment_id)
      || case when open.payment_id is null then ' is open, but no worker finds it' else ' is listed as open, but is not' end as fault
    from (select id from payments where network = ${network} and is_open) payment
    full join (select payment_id from open_payments where network = ${network}) open on open.payment_id = payment.id
    where payment.id is null or open.payment_id is null
    union all
    select 'payment ' || payment.id || ' is not named by its relay ' || payment.relay_id
    from payments payment
    left join relay_payments carried on carried.relay_id = payment.relay_id
    where payment.network = ${network}
      and payment.relay_id is not null
      and payment.id <> all(coalesce(carried.payment_ids, '{}'))`;
  return rows.map((row) => row.fault);
}

/** What was taken back left a trace, and nothing stands on a block that is not kept. */
async function checkReorgTraces(sql: Sql, network: NetworkId): Promise<string[]> {
  const rows = await sql<{ fault: string }[]>`
    select 'history row ' || id || ' is ORPHANED without an event' as fault
    from transactions
    where network = ${network} and status = 'ORPHANED'
      and not exists (select from events where subject_id = transactions.id and type = 'transaction.orphaned')
    union all
    select 'transfer ' || transfers.id || ' stands on block ' || hex_of(transfers.block_hash) || ', which is not kept'
    from transfers
    join blocks on blocks.network = transfers.network and blocks.number = transfers.block_number
    where transfers.network = ${network} and transfers.status <> 'ORPHANED' and blocks.hash <> hex_of(transfers.block_hash)
    union all
    select 'the kept blocks have a hole below ' || block.number
    from blocks block
    join blocks before on before.network = block.network and before.number = block.number - 1
    where block.network = ${network} and before.hash <> block.parent_hash`;
  return rows.map((row) => row.fault);
}

function compareBags(what: string, expected: readonly string[], found: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const item of expected) counts.set(item, (counts.get(item) ?? 0) + 1);
  for (const item of found) counts.set(item, (counts.get(item) ?? 0) - 1);
  return [...counts].flatMap(([item, count]) =>
    count === 0 ? [] : [`${what}: ${count > 0 ? `missing ${count} x` : `${-count} too many of`} ${item}`],
  );
}
