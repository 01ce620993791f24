/** Fills a migrated database with one large merchant among many small ones: links and history of three years, made by Postgres itself. */
import type { Sql, Tx } from "../db/postgres/client.ts";

export type SeedSizes = {
  /** Rows of the large merchant. */
  transactions: number;
  links: number;
  /** Small merchants beside it, with SMALL_HISTORY rows each. */
  merchants?: number;
};

const LARGE_MERCHANT = "user_00000000-0000-4000-8000-000000000001";
const SMALL_HISTORY = 300;
const BATCH_ROWS = 500_000;
const YEARS = 3;

/** Inserts the rows and their counters. Indexes are dropped and built again, so give it a database of its own. */
export async function seedHistory(
  sql: Sql,
  sizes: SeedSizes,
  say: (line: string) => void = () => {},
): Promise<void> {
  const merchants = sizes.merchants ?? 999;
  await sql.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await insertMerchants(tx, merchants + 1);
  });
  await withoutIndexes(sql, ["payment_links", "transactions"], say, async () => {
    await inBatches(
      sizes.links,
      (from, to) => insertLinks(sql, sizes.links, from, to),
      (done) => say(`${done} links`),
    );
    await inBatches(
      sizes.transactions,
      (from, to) =>
        insertHistory(sql, {
          ...{ userId: LARGE_MERCHANT, prefix: "txn_seed" },
          ...{ rows: sizes.transactions, range: { from, to } },
        }),
      (done) => say(`${done} transactions`),
    );
    await insertSmall(sql, merchants);
  });
  await countEverything(sql);
  for (const table of [
    "payment_links",
    "transactions",
    "transaction_counts",
    "transaction_amount_counts",
    "link_counts",
  ])
    await unlimited(sql, (tx) => tx`analyze ${tx(table)}`);
  say("analyzed");
}

async function inBatches(
  total: number,
  insert: (from: number, to: number) => Promise<unknown>,
  done: (rows: number) => void,
) {
  for (let from = 1; from <= total; from += BATCH_ROWS) {
    const to = Math.min(total, from + BATCH_ROWS - 1);
    await insert(from, to);
    done(to);
  }
}

function unlimited(sql: Sql, run: (tx: Tx) => Promise<unknown>) {
  return sql.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`set local maintenance_work_mem = '1GB'`;
    await run(tx);
  });
}

async function insertMerchants(tx: Tx, count: number): Promise<void> {
  await tx`
    insert into users (id, email, status)
    select ${"user_00000000-0000-4000-8000-"} || lpad(n::text, 12, '0'), 'merchant' || n || '@seed.example', 'ACTIVE'
    from generate_series(1, ${count}::int) n`;
  await tx`
    insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
    select 'seed-' || id, id, ''::bytea, sha256(id::bytea), sha256(id::bytea), 'multiDevice', true, 'localhost'
    from users
    where email like '%@seed.example'`;
  await tx`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
    select
      'wal_' || network || users.id, users.id, network, '0x' || left(encode(sha256(users.id::bytea), 'hex'), 40),
      'seed-' || users.id, '0x' || repeat('0', 40), '{}'
    from users
    cross join (values ('base'), ('base-sepolia')) as networks (network)
    where email like '%@seed.example'`;
}

/** Drops what slows a bulk insert (secondary indexes, our counting triggers), runs `work`, and builds it again. */
async function withoutIndexes(
  sql: Sql,
  tables: readonly string[],
  say: (line: string) => void,
  work: () => Promise<void>,
): Promise<void> {
  const indexes = await sql<{ name: string; definition: string }[]>`
    select indexname as name, indexdef as definition
    from pg_indexes
    where schemaname = current_schema()
      and tablename = any(${tables as string[]}::text[])
      and indexname not like '%_pkey'`;
  for (const index of indexes) await sql`drop index ${sql(index.name)}`;
  for (const table of tables) await sql`alter table ${sql(table)} disable trigger user`;
  await work();
  for (const table of tables) await sql`alter table ${sql(table)} enable trigger user`;
  for (const index of indexes) {
    await unlimited(sql, (tx) => tx.unsafe(index.definition));
    say(`index ${index.name}`);
  }
}

/** The counters the triggers would have kept. */
async function countEverything(sql: Sql): Promise<void> {
  await unlimited(
    sql,
    (tx) => tx`
      insert into transaction_counts (user_id, day, network, type, status, count)
      select
        user_id, coalesce(day, 'infinity'), coalesce(network, '*'), coalesce(type, '*'), coalesce(status, '*'), count(*)
      from (select *, transaction_day(detected_at) as day from transactions) rows
      group by grouping sets (
        (user_id, day, network, type, status), (user_id, network, type, status), (user_id, day), (user_id)
      )`,
  );
  await unlimited(
    sql,
    (tx) => tx`
      insert into transaction_amount_counts (user_id, network, type, status, bucket, count)
      select user_id, coalesce(network, '*'), coalesce(type, '*'), coalesce(status, '*'), bucket, count(*)
      from (select *, transaction_amount_bucket(amount_units) as bucket from transactions) rows
      group by grouping sets ((user_id, bucket, network, type, status), (user_id, bucket))`,
  );
  await unlimited(
    sql,
    (tx) => tx`
      insert into link_counts (user_id, status, count, amount_units, refunded_units)
      select user_id, status, count(*), sum(amount_units), sum(refunded_units)
      from payment_links
      group by 1, 2`,
  );
}

/** 70 % paid, 20 % expired, 5 % cancelled, 4 % active, 1 % pending. */
function insertLinks(sql: Sql, total: number, from: number, to: number) {
  return unlimited(
    sql,
    (tx) => tx`
      insert into payment_links
        (id, user_id, network, recipient, amount_units, description, status, expires_at, paid_at, created_at, updated_at)
      select
        'link_seed' || lpad(n::text, 18, '0'), ${LARGE_MERCHANT}, network, ${`0x${"11".repeat(20)}`},
        ${amount(tx)}, ${description(tx)},
        status,
        case when status in ('ACTIVE', 'PENDING') then now() + interval '30 days' else created + interval '1 day' end,
        case when status = 'PAID' then created + interval '1 hour' end,
        created, created + interval '1 hour'
      from (
        select
          n,
          case when n % 5 = 0 then 'base-sepolia' else 'base' end as network,
          case
            when n % 100 < 70 then 'PAID'
            when n % 100 < 90 then 'EXPIRED'
            when n % 100 < 95 then 'CANCELLED'
            when n % 100 < 99 then 'ACTIVE'
            else 'PENDING'
          end as status,
          ${moment(tx, total)} as created,
          random() as dice
        from generate_series(${from}::int, ${to}::int) n
      ) rows`,
  );
}

/** Rows of the last three years for one merchant, all of them or those of a range; triggers count them. */
export function insertHistory(
  sql: Sql,
  history: { userId: string; prefix: string; rows: number; range?: { from: number; to: number } },
) {
  const { userId, prefix, rows, range = { from: 1, to: rows } } = history;
  return unlimited(
    sql,
    (tx) => tx`
      insert into transactions
        (id, user_id, network, type, status, amount_units, counterparty, description, tx_hash, log_index,
         block_number, detected_at, confirmed_at, created_at, updated_at)
      select ${prefix} || lpad(n::text, 18, '0'), ${userId}, ${historyColumns(tx)}
      from (
        select n, ${moment(tx, rows)} as created, random() as dice
        from generate_series(${range.from}::int, ${range.to}::int) n
      ) rows`,
  );
}

function insertSmall(sql: Sql, merchants: number) {
  return unlimited(
    sql,
    (tx) => tx`
      insert into transactions
        (id, user_id, network, type, status, amount_units, counterparty, description, tx_hash, log_index,
         block_number, detected_at, confirmed_at, created_at, updated_at)
      select
        'txn_small' || lpad(n::text, 17, '0'),
        ${"user_00000000-0000-4000-8000-"} || lpad((2 + n % ${merchants}::int)::text, 12, '0'), ${historyColumns(tx)}
      from (
        select n, now() - random() * interval '3 years' as created, random() as dice
        from generate_series(1, ${merchants * SMALL_HISTORY}::int) n
      ) rows`,
  );
}

/** 80 % on base; 70 % links, 20 % received, 10 % sent; 97.9 % confirmed. */
function historyColumns(tx: Tx) {
  return tx`
    case when n % 5 = 0 then 'base-sepolia' else 'base' end,
    case when n % 10 < 7 then 'PAYMENT_LINK' when n % 10 < 9 then 'RECEIVE' else 'SEND' end,
    case
      when n % 1000 < 979 then 'CONFIRMED' when n % 1000 < 989 then 'FAILED' when n % 1000 < 994 then 'DETECTED'
      when n % 1000 < 999 then 'ORPHANED' else 'PENDING'
    end,
    ${amount(tx)},
    '0x' || left(md5('payer' || (n % 50000)) || md5('tail' || (n % 50000)), 40),
    case when n % 10 < 7 then ${description(tx)} else '' end,
    '0x' || md5('hash' || n) || md5('tail' || n), n % 300, 1000000 + n,
    created, created + interval '6 seconds', created, created + interval '6 seconds'`;
}

/** Spread over YEARS in order of n, the newest a few seconds ago. */
function moment(tx: Tx, total: number) {
  return tx`now() - interval '5 seconds' - (1 - n::float8 / ${total}::int) * ${`${YEARS * 365} days`}::interval`;
}

/** A third are prices people use, the rest spread over four decades. */
function amount(tx: Tx) {
  return tx`
    case
      when n % 3 = 0 then (array[5000000, 9990000, 10000000, 25000000, 49900000, 100000000])[1 + (n / 3) % 6]::bigint
      else (power(10, 4 + 5 * dice))::bigint
    end`;
}

function description(tx: Tx) {
  return tx`
    (array['Coffee beans', 'Invoice', 'Order', 'Consulting hours', 'Monthly plan', 'Ticket', 'Workshop', 'Gift card',
           'Repair', 'Rechnung für', '注文番号', 'Pago de pedido'])[1 + n % 12]
      || ' ' || (100000 + n % 900000) || case when n % 20000 = 6 then ' rush delivery' else '' end`;
}
