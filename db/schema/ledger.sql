-- What the chain says. Written by the indexer alone, each range in one transaction with its cursor.

create table cursors (
  network text primary key check (network in ('base', 'base-sepolia')),
  -- the last block whose effects are in this database
  number bigint not null,
  hash text not null,
  -- fencing token, raised by each new leader: a leader that lost its lock writes nothing any more
  epoch bigint not null default 0,
  head_number bigint not null,
  head_time timestamptz,
  finalized_number bigint not null default 0,
  -- blocks up to here were read a second time
  rechecked_number bigint not null default 0,
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

-- What names a log, in 16 bytes: its columns are 80 as text.
create function log_digest(network text, block_hash text, log_index int) returns uuid
  language sql immutable parallel safe
  return encode(substr(sha256((network || block_hash || log_index::text)::bytea), 1, 16), 'hex')::uuid;

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
  -- the link this transfer was attributed to, by what, and whether it is the one that pays it
  link_id text,
  pays boolean not null default false,
  settled_by text check (
    settled_by in ('authorization', 'tag', 'proof', 'early_claim', 'pay_amount', 'amount', 'merchant')
  ),
  -- links that fitted at the transfer's block when nothing decided between them
  candidates text[] constraint transfers_candidates_check
    check (candidates is null or (cardinality(candidates) > 0 and link_id is null)),
  payment_id text,
  detected_at timestamptz not null default now(),
  confirmed_at timestamptz,
  constraint transfers_pays_check check (not pays or link_id is not null)
);
-- a log is stored once, also when its block comes back after a reorganisation
create unique index transfers_log_key on transfers (log_digest(network, block_hash, log_index));
-- a link is paid by at most one log
create unique index transfers_pays_link_key on transfers (link_id) where pays and status <> 'ORPHANED';
-- an authorization settles once
create unique index transfers_payment_key on transfers (payment_id)
  where payment_id is not null and status <> 'ORPHANED';
-- Hashes and nonces are looked up whole, so hash indexes hold them: 4 bytes an entry instead of 67. A nonce is nearly unique, its payer
-- and network are compared in the row.
-- serves: transfers of a claim's transaction
create index transfers_hash on transfers using hash (tx_hash);
-- serves: was this authorization executed
create index transfers_authorization on transfers using hash (authorization_nonce) where authorization_nonce is not null;
-- serves: confirming and orphaning by height. Height first: with the network first, a look-up by network and authorization was planned
-- on this index while the table was young, and read all of it.
create index transfers_height on transfers (block_number, network) where status <> 'ORPHANED';
-- serves: transfers that wait for their depth
create index transfers_detected on transfers (network, block_number) where status = 'DETECTED';
-- serves: balance of a wallet in the ledger, on any network
create index transfers_to on transfers (address_key(to_address), block_number);
create index transfers_from on transfers (address_key(from_address), block_number);
-- serves: the transfers of a link that do not pay it, for its exception
create index transfers_misfit_link on transfers (link_id) where link_id is not null and not pays;

-- A merchant's own decisions about transfers, kept by place in the chain: applied again after a reorganisation and a rebuild.
create table assignments (
  network text not null check (network in ('base', 'base-sepolia')),
  tx_hash text not null,
  log_index int not null,
  user_id text not null references users on delete cascade,
  -- null: no link, whatever amount or early claim says
  link_id text references payment_links on delete cascade,
  -- pays its link although the value differs
  accept boolean not null default false,
  updated_at timestamptz not null default now(),
  primary key (network, tx_hash, log_index)
);

-- The ledger is compared with the chain, again and again: logs of every block a second time, balances of every wallet in turn.
create table reconciliations (
  id bigint generated always as identity primary key,
  network text not null check (network in ('base', 'base-sepolia')),
  -- LOGS: a range of blocks read again. BALANCES: wallets' balances at one final block
  kind text not null check (kind in ('LOGS', 'BALANCES')),
  from_block bigint not null,
  to_block bigint not null,
  -- transfers or wallets compared
  checked int not null,
  -- must be 0
  differences int not null,
  -- differences that were missing transfers and are in the ledger now
  repaired int not null default 0,
  details jsonb not null default '[]',
  created_at timestamptz not null default now()
);
-- serves: the newest result of each kind; housekeeping
create index reconciliations_newest on reconciliations (network, kind, id desc);
