-- Payment links, the unique amounts reserved for them, what payers' browsers said about them, their counts, and what their pages show.

-- A link is paid once. One that many payers pay (is_reusable) is never paid itself: each payer gets a use of it, a link of its own with one
-- amount, one payment, its own tag and receipt, so that everything that keeps a link from being paid twice holds per use.
-- Columns go by size, the largest first, which saves their padding in every row.
create table payment_links (
  amount_units bigint not null check (amount_units between 1 and 1000000000000),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- the indexer's cursor when the link was made: only transfers of later blocks can pay it
  created_block bigint,
  -- an amount that asks for this link alone, for people who type it
  pay_amount_units bigint constraint payment_links_pay_amount_check check (pay_amount_units > amount_units),
  -- the payer chooses an amount between these; amount_units is then the least
  min_units bigint check (min_units between 1 and 1000000000000),
  max_units bigint check (max_units between 1 and 1000000000000),
  refunded_units bigint not null default 0 check (refunded_units >= 0),
  -- A transfer mined before then still counts as a candidate when another link has the same amount.
  cancelled_at timestamptz,
  -- uses at most; null: no end
  max_payments int default 1 check (max_payments >= 1),
  -- paid by nonce, tag, proof, unique amount or the merchant's assignment only, never by its plain amount: anybody may open uses, and none of
  -- them may make another link's transfer ambiguous
  is_addressed boolean not null generated always as (is_reusable or parent_id is not null) stored,
  -- the merchant shows it to agents: it is in the public listing, and its 402 says how it is called
  is_discoverable boolean not null default false,
  is_reusable boolean not null default false,
  -- the merchant asked that none of their other links has this reference
  unique_reference boolean not null default false,

  updated_at timestamptz not null default now(),
  -- what came, when the unique amount was typed or the merchant accepted another value
  paid_units bigint check (paid_units > 0),
  -- block time of the transfer that paid it
  paid_at timestamptz,
  -- What indexes order and choose rows by. With the status itself every change of it would rewrite all indexes; open_until, is_unpaid
  -- and stage stay as they are from ACTIVE to PENDING and back, so such a change stays in its page (HOT).
  open_until timestamptz generated always as (case when status in ('ACTIVE', 'PENDING') then expires_at end) stored,
  -- It has lost what held it, while a transfer that fits it is booked on it: it stays PENDING until the indexer makes that one pay it.
  is_released boolean not null generated always as (status = 'PENDING' and exception = 'DUPLICATE') stored,
  is_unpaid boolean not null generated always as (status <> 'PAID') stored,
  status text not null default 'ACTIVE'
    check (status in ('ACTIVE', 'PENDING', 'PAID', 'EXPIRED', 'CANCELLED')),
  stage text not null generated always as (case when status in ('ACTIVE', 'PENDING') then 'OPEN' else status end) stored,
  exception text not null default 'NONE'
    check (exception in ('NONE', 'PAID_LATE', 'UNDERPAID', 'OVERPAID', 'DUPLICATE')),
  -- what decided that the paying transfer pays it
  settled_by text check (
    settled_by in ('authorization', 'tag', 'proof', 'early_claim', 'pay_amount', 'amount', 'merchant')
  ),

  id text primary key check (starts_with(id, 'link_')),
  user_id text not null,
  network text not null check (network in ('base', 'base-sepolia')),
  recipient bytea not null,
  -- first 16 bytes of keccak256("link-tag:" + id)
  tag bytea,
  description text not null check (length(description) between 1 and 500),
  -- What a merchant notes with it: pairs of text, their own order number, the customer's address, where the payer returns to.
  -- Events about the link carry the first three (add_order_data).
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  reference text check (length(reference) between 1 and 100),
  customer_email text check (length(customer_email) between 3 and 254),
  success_url text check (length(success_url) <= 2000),
  cancel_url text check (length(cancel_url) <= 2000),
  -- of a use: its reusable link
  parent_id text references payment_links on delete cascade,

  constraint payment_links_lengths_check check (octet_length(recipient) = 20 and octet_length(tag) = 16),
  constraint payment_links_paid_at_check check ((status = 'PAID') = (paid_at is not null)),
  constraint payment_links_unique_reference_check check (not unique_reference or reference is not null),
  constraint payment_links_open_amount_check
    check ((min_units is null) = (max_units is null) and (min_units is null or is_reusable and min_units <= max_units)),
  constraint payment_links_reusable_check
    check (is_reusable or max_payments = 1),
  constraint payment_links_use_check check (parent_id is null or not is_reusable),
  -- a use belongs to the payer it was opened for
  constraint payment_links_discoverable_check check (not is_discoverable or parent_id is null),
  -- nothing can be attributed to a reusable link
  constraint payment_links_template_check
    check (not is_reusable or tag is null and pay_amount_units is null and status in ('ACTIVE', 'EXPIRED', 'CANCELLED')),
  -- A link goes with its wallet, whose row its writer has locked already. A key to the user would lock that row too, and write that into
  -- the log.
  constraint payment_links_wallet_fkey
    foreign key (network, recipient) references wallets (network, address) on delete cascade
)
-- Room for the second versions of about 14 rows a page. Becoming PENDING stays in the page (HOT) then: few links of a page do so before
-- dead versions of the others are pruned.
with (fillfactor = 58);
-- serves: a merchant's links of one stage, newest first. Without the id, which takes as much room as the other columns together: rows of
-- one microsecond are few, and are sorted by it as they are read
create index payment_links_listed_by_time on payment_links (owner_key(user_id), stage, created_at desc)
  where parent_id is null;
-- serves: a merchant's links that need attention, newest first
create index payment_links_exceptions on payment_links (owner_key(user_id), created_at desc, id desc)
  where exception <> 'NONE' and parent_id is null;
-- serves: a merchant's links of one reference, newest first
create index payment_links_reference on payment_links (user_id, reference, created_at desc, id desc)
  where reference is not null;
-- a reference that was asked to be unique has one link
create unique index payment_links_unique_reference_key on payment_links (user_id, reference) where unique_reference;
-- serves: a merchant's links for one customer, newest first
create index payment_links_customer on payment_links (user_id, customer_email, created_at desc, id desc)
  where customer_email is not null;
-- serves: the uses of a link, newest first, and how many of them count
create index payment_links_uses on payment_links (parent_id, created_at desc, id desc) where parent_id is not null;
-- serves: the public listing, newest first
create index payment_links_discoverable on payment_links (created_at desc, id desc) where is_discoverable and stage = 'OPEN';
-- serves: which link does a tag name
create index payment_links_tag on payment_links using hash (tag);
-- serves: which unpaid links does a transfer of this amount to this wallet fit, by the time of its block
create index payment_links_fitting on payment_links (address_key(recipient), amount_units, expires_at)
  where is_unpaid;
-- serves: which unpaid link does a transfer of this unique amount fit
create index payment_links_unique_amount on payment_links (address_key(recipient), pay_amount_units)
  where is_unpaid and pay_amount_units is not null;
-- serves: is a link of this network open; the job that expires links; links of a user whose time is over and which no job has moved yet
create index payment_links_open_by_time on payment_links (network, open_until) where open_until is not null;
-- serves: the indexer looking for links that lost what held them
create index payment_links_released on payment_links (network) where is_released;
-- serves: links made in blocks that a reorganisation took away
create index payment_links_created_block on payment_links using brin (created_block);

-- When the merchant cancelled it (cancelled_at), whichever statement does.
create function note_cancellation() returns trigger language plpgsql as $$
begin
  new.cancelled_at := now();
  return new;
end $$;
create trigger payment_links_note_cancellation before update of status on payment_links
  for each row when (new.status = 'CANCELLED' and old.status <> 'CANCELLED')
  execute function note_cancellation();

-- Counts and sums of a merchant's links, by status. A use is no link of the merchant's list, so it is not counted; its money is.
-- Changes are appended to link_count_deltas, so that writers never wait for one another; housekeeping folds them into this table in one
-- statement. A reader adds both: exact at its snapshot. A link that is created counts here at once: whoever creates one holds the lock of
-- the merchant's wallet, so no other transaction waits for it. A merchant's five counters stay in their page as they change: half of it is free
-- for that (HOT).
create table link_counts (
  count bigint not null,
  user_id text not null,
  status text not null,
  amount_units numeric(78, 0) not null,
  refunded_units numeric(78, 0) not null,
  primary key (user_id, status)
) with (fillfactor = 50);

-- A move from one status to another is one row: its links leave prior_status, with what they had there, and are in status now.
create table link_count_deltas (
  count bigint not null,
  user_id text not null,
  -- null: deleted
  status text,
  amount_units numeric(78, 0),
  refunded_units numeric(78, 0),
  -- null: created
  prior_status text,
  prior_amount_units numeric(78, 0),
  prior_refunded_units numeric(78, 0)
);
-- serves: the differences a reader adds
create index link_count_deltas_owner on link_count_deltas (owner_key(user_id));

-- The differences status by status.
create view link_count_changes as
  select user_id, status, count, amount_units, refunded_units
  from link_count_deltas
  where status is not null
  union all
  select user_id, prior_status, -count, -prior_amount_units, -prior_refunded_units
  from link_count_deltas
  where prior_status is not null;

-- A counter that is there is updated without the lock that an insert with a conflict writes into the log.
create function count_added_links() returns trigger language plpgsql as $$
begin
  with one as (
    select
      user_id, status, count(*) filter (where parent_id is null) as count,
      sum(coalesce(paid_units, amount_units)) as amount_units, sum(refunded_units) as refunded_units
    from added
    group by 1, 2
  ),
  counted as (
    update link_counts
    set
      count = link_counts.count + one.count,
      amount_units = link_counts.amount_units + one.amount_units,
      refunded_units = link_counts.refunded_units + one.refunded_units
    from one
    where link_counts.user_id = one.user_id and link_counts.status = one.status
    returning link_counts.user_id, link_counts.status
  )
  insert into link_counts (user_id, status, count, amount_units, refunded_units)
  select user_id, status, count, amount_units, refunded_units
  from one
  where not exists (
      select from counted
      where counted.user_id = one.user_id and counted.status = one.status
    )
  on conflict (user_id, status) do update
  set
    count = link_counts.count + excluded.count,
    amount_units = link_counts.amount_units + excluded.amount_units,
    refunded_units = link_counts.refunded_units + excluded.refunded_units;
  return null;
end $$;

-- Both versions of a row side by side. The plan is kept for the connection, whatever number of rows it was made for: without nested loops
-- it is good for any.
create function count_changed_links() returns trigger language plpgsql set enable_nestloop = off as $$
begin
  insert into link_count_deltas (
    user_id, status, prior_status, count, amount_units, refunded_units, prior_amount_units, prior_refunded_units
  )
  select
    added.user_id, added.status, removed.status, count(*) filter (where added.parent_id is null),
    sum(coalesce(added.paid_units, added.amount_units)), sum(added.refunded_units),
    sum(coalesce(removed.paid_units, removed.amount_units)), sum(removed.refunded_units)
  from added
  join removed on removed.id = added.id
  where (added.status, coalesce(added.paid_units, added.amount_units), added.refunded_units)
    is distinct from (removed.status, coalesce(removed.paid_units, removed.amount_units), removed.refunded_units)
  group by 1, 2, 3;
  return null;
end $$;

create function count_removed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, prior_status, count, prior_amount_units, prior_refunded_units)
  select
    user_id, status, count(*) filter (where parent_id is null), sum(coalesce(paid_units, amount_units)), sum(refunded_units)
  from removed
  group by 1, 2;
  return null;
end $$;

-- Each statement appends what it changed.
create trigger payment_links_count_added after insert on payment_links
  referencing new table as added
  for each statement execute function count_added_links();
create trigger payment_links_count_changed after update on payment_links
  referencing new table as added old table as removed
  for each statement execute function count_changed_links();
create trigger payment_links_count_removed after delete on payment_links
  referencing old table as removed
  for each statement execute function count_removed_links();

-- Unique amounts of a wallet, each reserved for the link that had it last. They go with their wallet, whose row their writer has locked
-- already, not with their link: an amount without its link is free.
create table pay_amounts (
  units bigint not null,
  used_at timestamptz not null default now(),
  network text not null check (network in ('base', 'base-sepolia')),
  recipient bytea not null,
  link_id text not null,
  primary key (network, recipient, units),
  constraint pay_amounts_wallet_fkey
    foreign key (network, recipient) references wallets (network, address) on delete cascade
);

-- What a payer's browser said it sent. A claim is a hint with a lease, never a proof.
create table claims (
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  lease_until timestamptz not null,
  looks int not null default 0,
  -- stored before the transfer was seen in a block
  is_early boolean not null default true,
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
  -- of the page that made it: the receipt of the claimed transfer is issued in it, and nothing else depends on it
  payer_language text
    check (payer_language in ('en', 'es', 'pt-BR', 'fr', 'de', 'tr', 'ar', 'hi', 'id', 'vi', 'zh-Hans')),
  request_id text
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

-- Until when the page of an open link is open in a browser: the indexer reads the network's chain more often as long.
create table link_watches (
  network text primary key check (network in ('base', 'base-sepolia')),
  watched_until timestamptz not null
);

-- How a merchant's payment pages, receipts and receipt mails look and work. A merchant without a row has the defaults.
create table merchant_pages (
  user_id text primary key references users on delete cascade,
  -- signs the query that a payer returns to the shop with; AES-256-GCM
  sealed_return_secret bytea,
  -- origins whose pages may show these in a frame or a popup
  frame_origins text[] not null default '{}' check (cardinality(frame_origins) <= 20),
  accent text check (accent ~ '^#[0-9a-f]{6}$'),
  -- PNG, encoded by us
  logo bytea check (octet_length(logo) between 1 and 65536),
  -- of its bytes; names it in its address
  logo_digest text check (logo_digest ~ '^[0-9a-f]{32}$'),
  updated_at timestamptz not null default now(),
  constraint merchant_pages_logo_named_check check ((logo is null) = (logo_digest is null))
);
-- serves: the logo of an address
create index merchant_pages_logo_digest on merchant_pages (logo_digest) where logo_digest is not null;

-- Receipts that go to a customer by mail: one a link and transaction, stored in the commit that makes the link PAID.
create table receipt_mails (
  id text primary key default 'rcp_' || replace(gen_random_uuid()::text, '-', ''),
  link_id text not null references payment_links on delete cascade,
  user_id text not null references users on delete cascade,
  tx_hash text not null,
  log_index int not null,
  -- set before the mail server is given the message, and reset only when it refused: never two mails for one payment
  sent_at timestamptz,
  created_at timestamptz not null default now()
);
-- a payment has one mail
create unique index receipt_mails_payment_key on receipt_mails (link_id, tx_hash);
-- serves: how many a merchant has caused in the last day
create index receipt_mails_user on receipt_mails (user_id, created_at);
