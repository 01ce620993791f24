-- Payment links, the unique amounts reserved for them, what payers' browsers said about them, and their counts.

create table payment_links (
  id text primary key check (starts_with(id, 'link_')),
  user_id text not null references users on delete cascade,
  network text not null check (network in ('base', 'base-sepolia')),
  recipient text not null check (recipient ~ '^0x[0-9a-f]*$' and length(recipient) = 42),
  amount_units bigint not null check (amount_units between 1 and 1000000000000),
  -- an amount that asks for this link alone, for people who type it
  pay_amount_units bigint constraint payment_links_pay_amount_check check (pay_amount_units > amount_units),
  description text not null check (length(description) between 1 and 500),
  -- first 16 bytes of keccak256("link-tag:" + id)
  tag text check (tag ~ '^0x[0-9a-f]*$' and length(tag) = 34),
  -- the indexer's cursor when the link was made: only transfers of later blocks can pay it
  created_block bigint,
  status text not null default 'ACTIVE'
    check (status in ('ACTIVE', 'PENDING', 'PAID', 'EXPIRED', 'CANCELLED')),
  -- What indexes order and choose rows by. With the status itself every change of it would write all indexes anew; these stay as they
  -- are from ACTIVE to PENDING and back, so such a change stays in its page (HOT).
  stage text not null generated always as (case when status in ('ACTIVE', 'PENDING') then 'OPEN' else status end) stored,
  is_unpaid boolean not null generated always as (status <> 'PAID') stored,
  open_until timestamptz generated always as (case when status in ('ACTIVE', 'PENDING') then expires_at end) stored,
  exception text not null default 'NONE'
    check (exception in ('NONE', 'PAID_LATE', 'UNDERPAID', 'OVERPAID', 'DUPLICATE')),
  is_released boolean not null generated always as (status = 'PENDING' and exception = 'DUPLICATE') stored,
  -- what decided that the paying transfer pays it
  settled_by text check (
    settled_by in ('authorization', 'tag', 'proof', 'early_claim', 'pay_amount', 'amount', 'merchant')
  ),
  -- what came, when the unique amount was typed or the merchant accepted another value
  paid_units bigint check (paid_units > 0),
  refunded_units bigint not null default 0 check (refunded_units >= 0),
  expires_at timestamptz not null,
  -- block time of the transfer that paid it
  paid_at timestamptz,
  cancelled_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint payment_links_paid_at_check check ((status = 'PAID') = (paid_at is not null))
) with (fillfactor = 85);
-- serves: a merchant's list, newest first, keyset (created_at, id): one ordered scan a stage, merged
create index payment_links_user_stage_created on payment_links (owner_key(user_id), stage, created_at desc, id desc);
-- serves: which link does a tag name
create index payment_links_tag on payment_links using hash (tag);
-- serves: which unpaid links does a transfer of this amount to this wallet fit, by the time of its block
create index payment_links_fitting on payment_links (address_key(recipient), amount_units, expires_at)
  where is_unpaid;
-- serves: which unpaid link does a transfer of this unique amount fit
create index payment_links_pay_amount on payment_links (address_key(recipient), pay_amount_units, expires_at)
  where is_unpaid and pay_amount_units is not null;
-- serves: the job that expires links; links of a user whose time is over and which no job has moved yet, a minute's worth of all users
create index payment_links_open_until on payment_links (open_until) where open_until is not null;
-- A link that loses what held it, while a transfer that fits it is booked on it, stays PENDING until the indexer makes that one pay it.
-- serves: the indexer looking for them
create index payment_links_released on payment_links (network) where is_released;
-- serves: links made in blocks that a reorganisation took away
create index payment_links_created_block on payment_links using brin (created_block);

-- a transfer mined before the merchant cancelled still counts as a candidate when another link has the same amount
create function note_cancellation() returns trigger language plpgsql as $$
begin
  new.cancelled_at := now();
  return new;
end $$;
create trigger payment_links_note_cancellation before update of status on payment_links
  for each row when (new.status = 'CANCELLED' and old.status <> 'CANCELLED')
  execute function note_cancellation();

-- Unique amounts of a wallet, each reserved for the link that had it last.
create table pay_amounts (
  network text not null check (network in ('base', 'base-sepolia')),
  recipient text not null,
  units bigint not null,
  link_id text not null references payment_links on delete cascade,
  used_at timestamptz not null default now(),
  primary key (network, recipient, units)
);

-- What a payer's browser said it sent. A claim is a hint with a lease, never a proof.
create table claims (
  id text primary key,
  link_id text not null references payment_links on delete cascade,
  network text not null,
  tx_hash text not null check (tx_hash ~ '^0x[0-9a-f]{64}$'),
  client_address text not null check (client_address ~ '^0x[0-9a-f]{40}$'),
  -- HINT: late or contested, decides nothing. DISPUTED: proven, but the transfer has paid another link
  state text not null default 'OPEN'
    check (state in ('OPEN', 'HINT', 'DISPUTED', 'MATCHED', 'REJECTED', 'EXPIRED')),
  reason text,
  -- how the claimant showed that it made the transfer: an EIP-712 signature of its key, or its contract's answer (ERC-1271)
  proof text check (proof in ('EOA', 'CONTRACT')),
  -- stored before the transfer was seen in a block
  is_early boolean not null default true,
  looks int not null default 0,
  lease_until timestamptz not null,
  request_id text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
-- a stranger who names a payer's transaction with another address must not take the payer's place
create unique index claims_link_hash_payer_key on claims (link_id, tx_hash, client_address);
-- serves: attribution by the hash a payer named, also after the claim's lease
create index claims_hash on claims (network, tx_hash) where state <> 'REJECTED';
-- serves: claims that wait for the chain
create index claims_open on claims (network) where state = 'OPEN';
-- serves: proofs that wait for the merchant to free their transfer
create index claims_disputed on claims (network) where state = 'DISPUTED';
-- serves: retention
create index claims_ended on claims (updated_at) where state in ('HINT', 'REJECTED', 'EXPIRED');

-- Counts and sums of a merchant's links. Triggers append differences, so writers never wait for one another; housekeeping folds them
-- into link_counts in one statement. A reader adds both: exact at its snapshot.
create table link_counts (
  user_id text not null,
  status text not null,
  count bigint not null,
  amount_units numeric(78, 0) not null,
  refunded_units numeric(78, 0) not null,
  primary key (user_id, status)
);

-- A move from one status to another is one row: its links leave prior_status, with what they had there, and are in status now.
create table link_count_deltas (
  user_id text not null,
  -- null: deleted
  status text,
  amount_units numeric(78, 0),
  refunded_units numeric(78, 0),
  -- null: created
  prior_status text,
  prior_amount_units numeric(78, 0),
  prior_refunded_units numeric(78, 0),
  count bigint not null
);
-- serves: the differences a reader adds
create index link_count_deltas_user on link_count_deltas (user_id);

-- The differences status by status.
create view link_count_changes as
  select user_id, status, count, amount_units, refunded_units
  from link_count_deltas
  where status is not null
  union all
  select user_id, prior_status, -count, -prior_amount_units, -prior_refunded_units
  from link_count_deltas
  where prior_status is not null;

create function count_added_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
  select user_id, status, count(*), sum(coalesce(paid_units, amount_units)), sum(refunded_units)
  from added
  group by 1, 2;
  return null;
end $$;

create function count_removed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, prior_status, count, prior_amount_units, prior_refunded_units)
  select user_id, status, count(*), sum(coalesce(paid_units, amount_units)), sum(refunded_units)
  from removed
  group by 1, 2;
  return null;
end $$;

-- Grouped, not joined: a plan made for a few rows is kept for statements that change all.
create function count_changed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (
    user_id, status, prior_status, count, amount_units, refunded_units, prior_amount_units, prior_refunded_units
  )
  select user_id, status, prior_status, count(*), sum(units), sum(refunded), sum(prior_units), sum(prior_refunded)
  from (
    select
      user_id, max(status) filter (where is_new) as status, max(status) filter (where not is_new) as prior_status,
      sum(units) filter (where is_new) as units, sum(units) filter (where not is_new) as prior_units,
      sum(refunded_units) filter (where is_new) as refunded, sum(refunded_units) filter (where not is_new) as prior_refunded
    from (
      select id, user_id, status, coalesce(paid_units, amount_units) as units, refunded_units, true as is_new from added
      union all
      select id, user_id, status, coalesce(paid_units, amount_units), refunded_units, false from removed
    ) both_versions
    group by id, user_id
  ) moved
  where (status, units, refunded) is distinct from (prior_status, prior_units, prior_refunded)
  group by 1, 2, 3;
  return null;
end $$;

create trigger payment_links_count_added after insert on payment_links
  referencing new table as added
  for each statement execute function count_added_links();
create trigger payment_links_count_changed after update on payment_links
  referencing new table as added old table as removed
  for each statement execute function count_changed_links();
create trigger payment_links_count_removed after delete on payment_links
  referencing old table as removed
  for each statement execute function count_removed_links();

-- Exact microseconds since 1970, for cursors: a Date of JavaScript keeps only milliseconds.
create function timestamp_micros(instant timestamptz) returns bigint
  language sql immutable parallel safe
  return (extract(epoch from instant) * 1000000)::bigint;

create function to_timestamp_micros(micros bigint) returns timestamptz
  language sql immutable parallel safe
  return timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond';
