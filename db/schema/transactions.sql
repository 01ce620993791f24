-- The history a user sees. Of any size: every page costs what it shows, every total is a sum of counters.

create extension if not exists pg_trgm;

-- Type, status and network of a row in one number, which indexes hold instead of 30 bytes of text. Numbers are never reused.
create function transaction_cell(type text, status text, network text) returns smallint
  language sql immutable parallel safe
  return (
    case type when 'SEND' then 0 when 'RECEIVE' then 1000 when 'PAYMENT_LINK' then 2000 end
    + case status when 'PENDING' then 0 when 'DETECTED' then 100 when 'CONFIRMED' then 200 when 'FAILED' then 300 when 'ORPHANED' then 400 end
    + case network when 'base' then 1 when 'base-sepolia' then 2 end
  )::smallint;

-- One row a user, transfer and direction. Without foreign keys to rows of the same payment: each check of one locks the row it names, and
-- writes that into the log. What deletes transfers deletes their history rows (db/ledger/rebuild.ts).
create table transactions (
  id text primary key check (starts_with(id, 'txn_')),
  user_id text not null,
  network text not null,
  type text not null check (type in ('SEND', 'RECEIVE', 'PAYMENT_LINK')),
  status text not null check (status in ('PENDING', 'DETECTED', 'CONFIRMED', 'FAILED', 'ORPHANED')),
  -- Nearly every row begins PENDING and gets its time, hash and status from its block. The wide indexes hold a row from then on only,
  -- so each gets one entry of it, not two; what is PENDING is few, and in an index of its own. Readers read both (branchesOf in
  -- db/transactions/filter.ts).
  is_settled boolean not null generated always as (status <> 'PENDING') stored,
  -- user_id, and type, status and network, as the wide indexes hold them
  owner uuid not null generated always as (owner_key(user_id)) stored,
  cell smallint not null generated always as (transaction_cell(type, status, network)) stored,
  amount_units numeric(78, 0) not null,
  -- the other side: payer of a received amount, receiver of a sent one
  counterparty text not null,
  description text not null default '',
  tx_hash text,
  log_index int,
  block_number bigint,
  link_id text,
  settled_by text,
  candidates text[],
  payment_id text,
  claim_id text references claims on delete set null,
  transfer_id bigint,
  failure_reason text,
  detected_at timestamptz not null,
  confirmed_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
-- a transfer is in the history once a direction: an address is of one user
-- serves: confirming and orphaning by transfer
create unique index transactions_transfer_key on transactions (transfer_id, (type = 'SEND'))
  where transfer_id is not null;
create unique index transactions_payment_key on transactions (payment_id) where payment_id is not null;
create unique index transactions_claim_key on transactions (claim_id) where claim_id is not null;
-- serves: the list, newest first
create index transactions_user_detected on transactions (owner, detected_at desc, id desc) where is_settled;
-- serves: the same of what is PENDING
create index transactions_pending on transactions (owner, detected_at desc, id desc) where not is_settled;
-- serves: any choice of types, statuses and networks, newest first: one ordered scan a cell, merged
create index transactions_cell on transactions (owner, cell, detected_at desc, id desc) where is_settled;
-- serves: amount bounds that few rows meet
create index transactions_user_amount on transactions (owner, amount_units, detected_at desc, id desc)
  where is_settled;
-- serves: search by the beginning of a hash; its first 12 digits leave hardly more than one row
create index transactions_user_hash on transactions (owner, left(tx_hash, 14) text_pattern_ops)
  where is_settled and tx_hash is not null;
-- serves: search for a part of the description
create index transactions_description on transactions using gin (description gin_trgm_ops) where is_settled;

-- Rows of a user by UTC day and cell (network, type, status). The day 'infinity' holds the sum of all days. The cell ('*', '*', '*')
-- holds the sum of all cells of a day: a list without types, statuses and networks adds a row a day, and one with them reads each
-- cell's days in one stretch.
create table transaction_counts (
  user_id text not null,
  day date not null,
  network text not null,
  type text not null,
  status text not null,
  count bigint not null,
  primary key (user_id, network, type, status, day)
);
-- serves: which cells a user has
create index transaction_counts_all_time on transaction_counts (user_id) where day = 'infinity';

-- Rows of a user by amount and cell. A bucket is the number of digits and the first three of them, so that the prices people
-- use are edges of buckets. The cell ('*', '*', '*') holds the sum of all cells.
create table transaction_amount_counts (
  user_id text not null,
  network text not null,
  type text not null,
  status text not null,
  bucket int not null,
  count bigint not null,
  primary key (user_id, network, type, status, bucket)
);

-- Triggers append differences, so writers never wait for one another; housekeeping folds them into the two tables above in one
-- statement. A reader adds both: exact at its snapshot. What is PENDING is few and soon something else: it is counted by its rows
-- (transactions_to_count), not by counters.
create table transaction_count_deltas (
  user_id text not null,
  day date not null,
  network text not null,
  type text not null,
  status text not null,
  amount_bucket int not null,
  count bigint not null
);
-- serves: the differences a reader adds
create index transaction_count_deltas_user on transaction_count_deltas (user_id);

create function transaction_amount_bucket(units numeric) returns int
  language sql immutable parallel safe
  return length(trunc(units)::text) * 1000 + rpad(left(trunc(units)::text, 3), 3, '0')::int;

create function transaction_day(detected_at timestamptz) returns date
  language sql immutable parallel safe
  return (detected_at at time zone 'UTC')::date;

create function count_added_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count)
  select user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), count(*)
  from added
  where status <> 'PENDING'
  group by 1, 2, 3, 4, 5, 6;
  return null;
end $$;

create function count_removed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count)
  select user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), -count(*)
  from removed
  where status <> 'PENDING'
  group by 1, 2, 3, 4, 5, 6;
  return null;
end $$;

create function count_changed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count)
  select user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), sum(n)
  from (
    select user_id, detected_at, network, type, status, amount_units, 1 as n from added where status <> 'PENDING'
    union all
    select user_id, detected_at, network, type, status, amount_units, -1 from removed where status <> 'PENDING'
  ) changed
  group by 1, 2, 3, 4, 5, 6
  having sum(n) <> 0;
  return null;
end $$;

-- What a reader adds to the counters. Ask for user and owner: each half has its index.
create view transactions_to_count as
  select user_id, owner_key(user_id) as owner, day, network, type, status, amount_bucket, count
  from transaction_count_deltas
  union all
  select
    user_id, owner, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), 1
  from transactions
  where not is_settled;

create trigger transactions_count_added after insert on transactions
  referencing new table as added
  for each statement execute function count_added_transactions();
create trigger transactions_count_changed after update on transactions
  referencing new table as added old table as removed
  for each statement execute function count_changed_transactions();
create trigger transactions_count_removed after delete on transactions
  referencing old table as removed
  for each statement execute function count_removed_transactions();
