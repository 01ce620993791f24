-- What the chain says. Written by the indexer alone, each range in one transaction with its cursor.

create table cursors (
  network text primary key check (network in ('base', 'base-sepolia')),
  -- the last block whose effects are in this database
  number bigint not null,
  hash text not null,
  -- raised by each new leader: a fence for a leader that lost its lock
  epoch bigint not null default 0,
  head_number bigint not null,
  head_time timestamptz,
  finalized_number bigint not null default 0,
  last_error text,
  last_error_at timestamptz,
  updated_at timestamptz not null default now()
);

create table blocks (
  network text not null,
  number bigint not null,
  hash text not null,
  parent_hash text not null,
  block_time timestamptz not null,
  primary key (network, number)
);

-- USDC Transfer logs that touch a wallet, a claim or a payment.
create table transfers (
  id bigint generated always as identity primary key,
  network text not null,
  block_number bigint not null,
  block_hash text not null,
  block_time timestamptz not null,
  tx_hash text not null,
  log_index int not null,
  from_address text not null,
  to_address text not null,
  amount_units numeric(78, 0) not null,
  -- nonce of the AuthorizationUsed log this transfer followed, if any
  authorization_nonce text,
  status text not null default 'DETECTED' check (status in ('DETECTED', 'CONFIRMED', 'ORPHANED')),
  -- the link this transfer was attributed to, and whether it is the one that pays it
  link_id text references payment_links on delete set null,
  pays boolean not null default false,
  payment_id text references payments on delete set null,
  detected_at timestamptz not null default now(),
  confirmed_at timestamptz,
  check (not pays or link_id is not null)
);
-- a log is stored once, also when its block comes back after a reorganisation
create unique index transfers_log_key on transfers (network, block_hash, log_index);
-- a link is paid by at most one log
create unique index transfers_pays_link_key on transfers (link_id) where pays and status <> 'ORPHANED';
-- an authorization settles once
create unique index transfers_payment_key on transfers (payment_id)
  where payment_id is not null and status <> 'ORPHANED';
-- serves: transfers of a claim's transaction
create index transfers_tx on transfers (network, tx_hash);
-- serves: confirming and orphaning by height
create index transfers_height on transfers (network, block_number) where status <> 'ORPHANED';
-- serves: balance of a wallet in the books
create index transfers_to on transfers (network, to_address, block_number);
create index transfers_from on transfers (network, from_address, block_number);

-- The history a user sees: one row a user, transfer and direction.
create table transactions (
  id text primary key check (starts_with(id, 'txn_')),
  user_id text not null references users on delete cascade,
  network text not null,
  type text not null check (type in ('SEND', 'RECEIVE', 'PAYMENT_LINK')),
  status text not null check (status in ('PENDING', 'DETECTED', 'CONFIRMED', 'FAILED', 'ORPHANED')),
  amount_units numeric(78, 0) not null,
  -- the other side: payer of a received amount, receiver of a sent one
  counterparty text not null,
  description text not null default '',
  tx_hash text,
  log_index int,
  block_number bigint,
  link_id text references payment_links on delete set null,
  payment_id text references payments on delete set null,
  claim_id text references claims on delete set null,
  transfer_id bigint references transfers on delete cascade,
  failure_reason text,
  detected_at timestamptz not null,
  confirmed_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
-- a transfer is in a user's history once a direction
create unique index transactions_transfer_key on transactions (user_id, transfer_id, type)
  where transfer_id is not null;
create unique index transactions_payment_key on transactions (payment_id) where payment_id is not null;
create unique index transactions_claim_key on transactions (claim_id) where claim_id is not null;
-- serves: the list, newest first
create index transactions_user_detected on transactions (user_id, detected_at desc, id desc);
-- serves: confirming and orphaning by transfer
create index transactions_transfer on transactions (transfer_id) where transfer_id is not null;
