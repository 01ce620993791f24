/** The wait between a round's load and its judgement: until the service has ended everything that it can end. */
import type { Sql } from "../../db/postgres/client.ts";
import { mineBlock, readHead } from "./campaign-chain.ts";
import { saveEvidence } from "./save-evidence.ts";
import { count, type Stage } from "./stage.ts";
import { addOwner, sendMoney } from "./use-wallets.ts";

/** A claim of a transaction that is lost waits for 90 seconds. */
const QUIET_TIMEOUT_MS = 120_000;
/** An operation that waits for longer may wait for a nonce that only its merchant can use. */
const FILL_AFTER_MS = 45_000;
const FILL_EVERY_MS = 20_000;
const POLL_MS = 500;
const ROWS_SHOWN = 6;

/** Rows still open when the time is up: they would wait forever. */
export async function waitUntilQuiet(stage: Stage): Promise<string[]> {
  const deadline = Date.now() + QUIET_TIMEOUT_MS;
  let fillAtMs = Date.now() + FILL_AFTER_MS;
  let isSaved = false;
  const heads = await mineHeads(stage);
  for (;;) {
    const open = [...(await readUnread(stage.sql, heads)), ...(await readOpenRows(stage.sql))];
    if (open.length === 0 || Date.now() > deadline) return open;
    if (Date.now() > fillAtMs && open.some((row) => row.startsWith("operation"))) {
      fillAtMs = Date.now() + FILL_EVERY_MS;
      const folder = isSaved ? "the same folder" : await saveEvidence(stage, open);
      isSaved = true;
      console.log(`  still open, saved in ${folder}: ${open.slice(0, ROWS_SHOWN).join("; ")}`);
      await fillNonces(stage);
    }
    await Bun.sleep(POLL_MS);
  }
}

type Head = { network: string; number: number };

/** Blocks above everything that the load has sent: the service knows all of it once its indexer has read them. */
function mineHeads({ chains }: Stage): Promise<Head[]> {
  return Promise.all(
    chains.map(async (chain) => {
      await mineBlock(chain);
      return { network: chain.network, number: await readHead(chain) };
    }),
  );
}

async function readUnread(sql: Sql, heads: readonly Head[]): Promise<string[]> {
  const cursors = await sql<{ network: string; number: bigint }[]>`select network, number from cursors`;
  return heads.flatMap(({ network, number }) => {
    const cursor = cursors.find((one) => one.network === network);
    return cursor && Number(cursor.number) >= number
      ? []
      : [`blocks of ${network} up to ${number}, read to ${cursor?.number}`];
  });
}

/**
 * An operation that was signed after one that a reorganisation removed can run only when another one has used the nonce between. Merchants
 * go on sending and adding owners; here their load has ended.
 */
async function fillNonces(stage: Stage): Promise<void> {
  for (const merchant of stage.merchants)
    for (const chain of stage.chains) {
      const sent = await sendMoney(stage, merchant, chain).catch(() => undefined);
      if (sent) count(stage, "sends to use a nonce that others wait for");
      await addOwner(stage, merchant, chain).catch(() => undefined);
    }
}

/** An operation for every chain may wait forever on a network where its wallet is not deployed. */
async function readOpenRows(sql: Sql): Promise<string[]> {
  const rows = await sql<{ what: string }[]>`
    select concat_ws(' ', 'payment', id, network, state) as what
    from payments
    where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
    union all
    select concat_ws(' ', 'relay', id, network, state, kind, 'nonce', nonce)
    from relays
    where state in ('SIGNED', 'BROADCAST', 'MINED')
    union all
    select concat_ws(' ', 'operation', op.id, op.network, op.state, 'nonce', account_nonce, 'extra', is_extra)
    from wallet_operations op
    join wallets on wallets.id = op.wallet_id
    where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED') and (not is_any_chain or wallets.deployed_at is not null)
    union all
    select concat_ws(' ', 'transfer', id, network, status) from transfers where status = 'DETECTED'
    union all
    select concat_ws(' ', 'history', id, network, status) from transactions where status in ('DETECTED', 'PENDING')
    union all
    select concat_ws(' ', 'link', id, network, status) from payment_links where status = 'PENDING'
    union all
    select concat_ws(' ', 'claim', id, state) from claims where state = 'OPEN'
    union all
    select concat_ws(' ', 'job', id, 'attempts', attempts)
    from graphile_worker._private_jobs
    where (attempts > 6 and attempts < max_attempts) or locked_at < now() - interval '60 seconds'`;
  return rows.map(({ what }) => what);
}
