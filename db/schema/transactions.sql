-- The history a user sees. Of any size: every page costs what it shows, every total is a sum of counters.

-- Type, status and network of a row in one number, which indexes hold instead of 30 bytes of text. Numbers are never reused.
create function transaction_cell(type text, status text, network text) returns smallint
  language sql immutable parallel safe
  return (
    case type when 'SEND' then 0 when 'RECEIVE' then 1000 when 'PAYMENT_LINK' then 2000 end
    + case status when 'PENDING' then 0 when 'DETECTED' then 100 when 'CONFIRMED' then 200 when 'FAILED' then 300 when 'ORPHANED' then 400 end
    + case network when 'base' then 1 when 'base-sepolia' then 2 end
  )::smallint;

-- Every five digits in a row of a description and a reference, as one number each. Two numbers of six digits that share four of them share
-- trigrams, but no part.
create function number_parts(description text, reference text) returns int[]
  language plpgsql immutable parallel safe as $$
declare
  words text := coalesce(description, '') || ' ' || coalesce(reference, '');
  parts int[];
  digits text;
begin
  foreach digits in array regexp_split_to_array(words, '[^0-9]+') loop
    for start in 1 .. length(digits) - 4 loop
      parts := parts || substr(digits, start, 5)::int;
    end loop;
  end loop;
  return parts;
end $$;

-- One row a user, transfer and direction. A payment's row is written by the block that holds its transfer, or when it fails
-- (note_changed_payments); until then payment and link say all of it, and unwritten_transactions shows them as a row.
-- Without foreign keys to rows of the same payment: each check of one locks the row it names, and writes that into the log. What deletes
-- transfers deletes their history rows (db/ledger/rebuild.ts).
-- Columns go by size, the largest first, which saves their padding in every row.
create table transactions (
  detected_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  confirmed_at timestamptz,
  block_number bigint,
  transfer_id bigint,
  -- the transfer of an operation of ours, whose row is opened PENDING when its owner confirms it
  operation_item_id bigint references wallet_operation_items on delete set null,
  log_index int,
  -- What indexes hold of type, status and network, of user_id, and choose rows by. The wide indexes hold a row only once it is not PENDING,
  -- when it has the time, hash and status of its block, so each gets one entry of it, not two. What is PENDING is few, and in an index of
  -- its own. Readers read both (branchesOf in db/transactions/filter.ts).
  cell smallint not null generated always as (transaction_cell(type, status, network)) stored,
  is_settled boolean not null generated always as (status <> 'PENDING') stored,
  owner uuid not null generated always as (owner_key(user_id)) stored,

  id text primary key check (starts_with(id, 'txn_')),
  user_id text not null,
  network text not null,
  type text not null check (type in ('SEND', 'RECEIVE', 'PAYMENT_LINK')),
  status text not null check (status in ('PENDING', 'DETECTED', 'CONFIRMED', 'FAILED', 'ORPHANED')),
  amount_units numeric(78, 0) not null,
  -- the other side: payer of a received amount, receiver of a sent one
  counterparty bytea not null,
  tx_hash bytea,
  link_id text,
  settled_by text,
  candidates text[],
  payment_id text,
  claim_id text references claims on delete set null,
  operation_id text,
  operation_note text,
  failure_reason text,
  description text not null default '',
  -- of its link, which never changes; kept by triggers
  reference text,
  constraint transactions_lengths_check check (octet_length(counterparty) = 20 and octet_length(tx_hash) = 32)
);
-- a transfer is in the history once a direction: an address is of one user
-- serves: confirming and orphaning by transfer
create unique index transactions_transfer_key on transactions (transfer_id, (type = 'SEND'))
  where transfer_id is not null;
-- a payment, a claim and a transfer of an operation have one row; each serves: finding it
create unique index transactions_payment_key on transactions (payment_id) where payment_id is not null;
create unique index transactions_claim_key on transactions (claim_id) where claim_id is not null;
create unique index transactions_operation_item_key on transactions (operation_item_id)
  where operation_item_id is not null;
-- serves: the rows of an operation
create index transactions_operation on transactions (operation_id) where operation_id is not null;
-- The lists' indexes. An entry ends in what orders a list. Where the id would be half of it, rows of one second, one transaction or one
-- merchant's few PENDING ones are sorted by id as they are read, and entries that are equal are stored once.
-- serves: the list, newest first
create index transactions_newest on transactions (owner, detected_at desc) where is_settled;
-- serves: what is PENDING of the list, and its counts
create index transactions_pending_of on transactions (owner) where not is_settled;
-- serves: any choice of types, statuses and networks, newest first: one ordered scan a cell, merged; also with amounts, by the index alone
create index transactions_by_cell on transactions (owner, cell, detected_at desc, id desc) include (amount_units)
  where is_settled;
-- serves: amount bounds that few rows meet, also with types, statuses, networks and dates, by the index alone
create index transactions_by_amount on transactions (owner, amount_units, detected_at desc, id desc) include (cell)
  where is_settled;
-- serves: search by the beginning of a hash; its first 6 bytes leave hardly more than one row
create index transactions_user_hash on transactions (owner, substr(tx_hash, 1, 6))
  where is_settled and tx_hash is not null;
-- Of the following three, what is not taken up yet is read row by row by each search: at most half a megabyte (gin_pending_list_limit).
-- serves: search for a part of a description; most transfers have none
create index transactions_described on transactions using gin (description gin_trgm_ops)
  with (gin_pending_list_limit = 512) where is_settled and description <> '';
-- serves: search for a part of a reference
create index transactions_reference on transactions using gin (reference gin_trgm_ops)
  with (gin_pending_list_limit = 512) where is_settled and reference is not null;
-- serves: search for a number of five digits or more, as of an order. The trigrams of its digits are in tens of thousands of rows of
-- a large history, each of its parts in a hundred
create index transactions_numbered on transactions using gin (number_parts(description, reference))
  with (gin_pending_list_limit = 512) where is_settled and (description ~ '[0-9]{5}' or reference ~ '[0-9]{5}');

-- A row carries its link's reference, which a search finds, whichever statement writes it.
create function note_reference() returns trigger language plpgsql as $$
begin
  new.reference := (select reference from payment_links where id = new.link_id);
  return new;
end $$;
create trigger transactions_note_added_reference before insert on transactions
  for each row when (new.link_id is not null)
  execute function note_reference();

-- After the update: a trigger before it locks each row before it is replaced, also where its condition is not met, and that would be a
-- record of the log for each payment that settles.
create function note_changed_reference() returns trigger language plpgsql as $$
begin
  update transactions
  set reference = link.reference
  from (select (select reference from payment_links where id = new.link_id) as reference) link
  where transactions.id = new.id and transactions.reference is distinct from link.reference;
  return null;
end $$;
create trigger transactions_note_changed_reference after update of link_id on transactions
  for each row when (new.link_id is distinct from old.link_id)
  execute function note_changed_reference();

-- Open payments as history rows, but those that have a row: failed and queued again, or taken out of their block by a reorganisation. Ask
-- for the owner.
create view unwritten_transactions as
  select
    history_id(payment.id) as id, link.user_id, payment.network, 'PAYMENT_LINK' as type, 'PENDING' as status,
    false as is_settled, open.owner, transaction_cell('PAYMENT_LINK', 'PENDING', payment.network) as cell,
    payment.amount_units::numeric(78, 0) as amount_units, payment.payer as counterparty, link.description,
    null::bytea as tx_hash, null::int as log_index, null::bigint as block_number, payment.link_id,
    payment.id as payment_id, null::text as claim_id, null::bigint as transfer_id, null::text as failure_reason,
    payment.created_at as detected_at, null::timestamptz as confirmed_at, payment.created_at,
    payment.created_at as updated_at, null::text as settled_by, null::text[] as candidates,
    null::bigint as operation_item_id, null::text as operation_id, null::text as operation_note, link.reference
  from open_payments open
  join payments payment on payment.id = open.payment_id
  join payment_links link on link.id = payment.link_id
  where open.network in ('base', 'base-sepolia')
    and payment.is_open
    and not exists (
      select from transactions written
      where written.payment_id = payment.id
    );

-- Everything that is PENDING.
create view pending_transactions as
  select
    id, user_id, network, type, status, is_settled, owner, cell, amount_units, counterparty, description, tx_hash,
    log_index, block_number, link_id, payment_id, claim_id, transfer_id, failure_reason, detected_at, confirmed_at,
    created_at, updated_at, settled_by, candidates, operation_item_id, operation_id, operation_note, reference
  from transactions
  where not is_settled
  union all
  select
    id, user_id, network, type, status, is_settled, owner, cell, amount_units, counterparty, description, tx_hash,
    log_index, block_number, link_id, payment_id, claim_id, transfer_id, failure_reason, detected_at, confirmed_at,
    created_at, updated_at, settled_by, candidates, operation_item_id, operation_id, operation_note, reference
  from unwritten_transactions;

-- The same of one user. A function has its plan from before: lists, which are planned as they are asked, do not plan these joins again.
create function unwritten_of(whose uuid) returns setof unwritten_transactions
  language plpgsql stable parallel safe rows 10 as $$
begin
  return query
  select
    one.id, one.user_id, one.network, one.type, one.status, one.is_settled, one.owner, one.cell,
    one.amount_units, one.counterparty, one.description, one.tx_hash, one.log_index, one.block_number,
    one.link_id, one.payment_id, one.claim_id, one.transfer_id, one.failure_reason, one.detected_at,
    one.confirmed_at, one.created_at, one.updated_at, one.settled_by, one.candidates, one.operation_item_id,
    one.operation_id, one.operation_note, one.reference
  from unwritten_transactions one
  where one.owner = whose;
end $$;

create function pending_of(whose uuid) returns setof pending_transactions
  language plpgsql stable parallel safe rows 10 as $$
begin
  return query
  select
    one.id, one.user_id, one.network, one.type, one.status, one.is_settled, one.owner, one.cell,
    one.amount_units, one.counterparty, one.description, one.tx_hash, one.log_index, one.block_number,
    one.link_id, one.payment_id, one.claim_id, one.transfer_id, one.failure_reason, one.detected_at,
    one.confirmed_at, one.created_at, one.updated_at, one.settled_by, one.candidates, one.operation_item_id,
    one.operation_id, one.operation_note, one.reference
  from pending_transactions one
  where one.owner = whose;
end $$;

-- Rows of a user by UTC day and cell (network, type, status), and the sum of their amounts. The day 'infinity' holds the sum of all days.
-- The cell ('*', '*', '*') holds the sum of all cells of a day: a list without types, statuses and networks adds a row a day, and one with
-- them reads each cell's days in one stretch.
create table transaction_counts (
  count bigint not null,
  day date not null,
  user_id text not null,
  network text not null,
  type text not null,
  status text not null,
  units numeric(78, 0) not null default 0,
  primary key (user_id, network, type, status, day)
);
-- serves: which cells a user has
create index transaction_counts_all_time on transaction_counts (user_id) where day = 'infinity';

-- Rows of a user by amount and cell. A bucket is the number of digits and the first three of them, so that the prices people
-- use are edges of buckets. The cell ('*', '*', '*') holds the sum of all cells.
create table transaction_amount_counts (
  count bigint not null,
  bucket int not null,
  user_id text not null,
  network text not null,
  type text not null,
  status text not null,
  primary key (user_id, network, type, status, bucket)
);

-- The counters of a hundred neighbouring amount buckets in one: those of one first digit. A total between amounts adds at most two hundred
-- counters and forty of these a cell, instead of up to several thousand counters. Kept by triggers: whoever folds differences into the
-- counters keeps these, too. A quarter of each page is free for their updates (HOT).
create table transaction_wide_amount_counts (
  count bigint not null,
  -- the first of the hundred
  bucket int not null,
  -- 0: the sum of all cells
  cell smallint not null,
  owner uuid not null,
  primary key (owner, cell, bucket)
) with (fillfactor = 75);

-- Added, changed and removed counters, summed up by their hundred.
create function widen_added_amount_counts() returns trigger language plpgsql as $$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, sum(count)
  from added
  group by 1, 2, 3
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $$;

create function widen_changed_amount_counts() returns trigger language plpgsql as $$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, sum(count)
  from (
    select user_id, network, type, status, bucket, count from added
    union all
    select user_id, network, type, status, bucket, -count from removed
  ) changed
  group by 1, 2, 3
  having sum(count) <> 0
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $$;

create function widen_removed_amount_counts() returns trigger language plpgsql as $$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, -sum(count)
  from removed
  group by 1, 2, 3
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $$;

create trigger transaction_amount_counts_added after insert on transaction_amount_counts
  referencing new table as added
  for each statement execute function widen_added_amount_counts();
create trigger transaction_amount_counts_changed after update on transaction_amount_counts
  referencing new table as added old table as removed
  for each statement execute function widen_changed_amount_counts();
create trigger transaction_amount_counts_removed after delete on transaction_amount_counts
  referencing old table as removed
  for each statement execute function widen_removed_amount_counts();

-- Triggers append differences, so writers never wait for one another; housekeeping folds them into the tables above in one statement. A
-- reader adds both: exact at its snapshot. What is PENDING is few and soon something else: it is counted by its rows
-- (transactions_to_count), not by counters.
create table transaction_count_deltas (
  count bigint not null,
  day date not null,
  amount_bucket int not null,
  user_id text not null,
  network text not null,
  type text not null,
  status text not null,
  units numeric(78, 0) not null default 0
);
-- serves: the differences a reader adds
create index transaction_count_deltas_owner on transaction_count_deltas (owner_key(user_id));

-- The number of digits, and the first three of them.
create function transaction_amount_bucket(units numeric) returns int
  language sql immutable parallel safe
  return length(trunc(units)::text) * 1000 + rpad(left(trunc(units)::text, 3), 3, '0')::int;

create function transaction_day(detected_at timestamptz) returns date
  language sql immutable parallel safe
  return (detected_at at time zone 'UTC')::date;

-- What a statement added, changed and removed, but what is PENDING, summed up by day, cell and bucket.
create function count_added_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), count(*),
    sum(amount_units)
  from added
  where status <> 'PENDING'
  group by 1, 2, 3, 4, 5, 6;
  return null;
end $$;

create function count_changed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), sum(n),
    sum(n * amount_units)
  from (
    select user_id, detected_at, network, type, status, amount_units, 1 as n from added where status <> 'PENDING'
    union all
    select user_id, detected_at, network, type, status, amount_units, -1 from removed where status <> 'PENDING'
  ) changed
  group by 1, 2, 3, 4, 5, 6
  having sum(n) <> 0 or sum(n * amount_units) <> 0;
  return null;
end $$;

create function count_removed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), -count(*),
    -sum(amount_units)
  from removed
  where status <> 'PENDING'
  group by 1, 2, 3, 4, 5, 6;
  return null;
end $$;

create trigger transactions_count_added after insert on transactions
  referencing new table as added
  for each statement execute function count_added_transactions();
create trigger transactions_count_changed after update on transactions
  referencing new table as added old table as removed
  for each statement execute function count_changed_transactions();
create trigger transactions_count_removed after delete on transactions
  referencing old table as removed
  for each statement execute function count_removed_transactions();

-- What a reader adds to the counters. Ask for user and owner: each half has its index.
create view transactions_to_count as
  select user_id, owner_key(user_id) as owner, day, network, type, status, amount_bucket, count, units
  from transaction_count_deltas
  union all
  select
    user_id, owner, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), 1,
    amount_units
  from pending_transactions;
