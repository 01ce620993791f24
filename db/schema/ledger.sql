-- What the chain says. Written by the indexer alone, each range in one transaction with its cursor.

-- How far each network was read.
create table cursors (
  -- the last block whose effects are in this database, and its hash
  number bigint not null,
  -- fencing token, raised by each new leader: a leader that lost its lock writes nothing any more
  epoch bigint not null default 0,
  head_number bigint not null,
  finalized_number bigint not null default 0,
  -- blocks up to here were read a second time
  rechecked_number bigint not null default 0,
  -- blocks up to here were searched for logs of accounts (account_changes); null until the first search, which begins at the depth of that time
  account_logs_number bigint,
  -- reorganisations that reached a block up to which sums of wallets were made
  ledger_version bigint not null default 0,
  -- the highest block up to which such sums may have been made
  reconciled_number bigint not null default -1,
  head_time timestamptz,
  -- when this row was made: transfers from before then were never reported as events
  started_at timestamptz,
  last_error_at timestamptz,
  updated_at timestamptz not null default now(),
  network text primary key check (network in ('base', 'base-sepolia')),
  hash text not null,
  -- the wallet whose sum was counted again last
  recounted_wallet text not null default '',
  last_error text
);

-- Signs of life of each network's leader. A process that is stopped, or whose machine is, keeps its connections and with them its
-- advisory lock: who waits to lead sees here that it is frozen.
create table indexer_leaders (
  alive_at timestamptz not null,
  -- the server process of the connection that holds the lock
  backend_pid int not null,
  network text primary key check (network in ('base', 'base-sepolia'))
);

-- Headers of blocks that were read one by one, which link the next block to the same chain; kept until no reorganisation can reach them.
create table blocks (
  number bigint not null,
  block_time timestamptz not null,
  network text not null,
  hash text not null,
  parent_hash text not null,
  primary key (network, number)
);

-- What names a log, in 16 bytes.
create function log_digest(network text, block_hash bytea, log_index int) returns uuid
  language sql immutable parallel safe
  return encode(substr(sha256(network::bytea || block_hash || log_index::text::bytea), 1, 16), 'hex')::uuid;

-- USDC Transfer logs that touch a wallet, a claim or a payment. Columns go by size, the largest first, which saves their padding in every
-- row.
create table transfers (
  id bigint generated always as identity primary key,
  block_number bigint not null,
  block_time timestamptz not null,
  detected_at timestamptz not null default now(),
  confirmed_at timestamptz,
  log_index int not null,
  -- the link this transfer was attributed to (link_id), by what (settled_by), and whether it is the one that pays it
  pays boolean not null default false,
  network text not null,
  status text not null default 'DETECTED' check (status in ('DETECTED', 'CONFIRMED', 'ORPHANED')),
  block_hash bytea not null,
  tx_hash bytea not null,
  from_address bytea not null,
  to_address bytea not null,
  amount_units numeric(78, 0) not null,
  -- nonce of the AuthorizationUsed log this transfer followed, if any
  authorization_nonce bytea,
  link_id text,
  payment_id text,
  settled_by text check (
    settled_by in ('authorization', 'tag', 'proof', 'early_claim', 'pay_amount', 'amount', 'merchant')
  ),
  -- links that fitted at the transfer's block when nothing decided between them
  candidates text[] constraint transfers_candidates_check
    check (candidates is null or (cardinality(candidates) > 0 and link_id is null)),
  constraint transfers_pays_check check (not pays or link_id is not null),
  constraint transfers_lengths_check check (
    octet_length(block_hash) = 32 and octet_length(tx_hash) = 32 and octet_length(from_address) = 20
    and octet_length(to_address) = 20 and octet_length(authorization_nonce) = 32
  )
);
-- a log is stored once, also when its block comes back after a reorganisation
create unique index transfers_log_key on transfers (log_digest(network, block_hash, log_index));
-- a link is paid by at most one log
create unique index transfers_pays_link_key on transfers (link_id) where pays and status <> 'ORPHANED';
-- an authorization settles once
create unique index transfers_payment_key on transfers (payment_id)
  where payment_id is not null and status <> 'ORPHANED';
-- Hashes and nonces are looked up whole, so hash indexes hold them: 4 bytes an entry. A nonce is nearly unique, its payer and network are
-- compared in the row.
-- serves: transfers of a claim's transaction
create index transfers_hash on transfers using hash (tx_hash);
-- serves: was this authorization executed
create index transfers_authorization on transfers using hash (authorization_nonce) where authorization_nonce is not null;
-- serves: confirming and orphaning by height. Height first: with the network first, a look-up by network and authorization is planned
-- on this index while the table is young, and reads all of it
create index transfers_height on transfers (block_number, network) where status <> 'ORPHANED';
-- serves: transfers that wait for their depth
create index transfers_detected on transfers (network, block_number) where status = 'DETECTED';
-- serves both: balance of a wallet in the ledger, on any network
create index transfers_to on transfers (address_key(to_address), block_number);
create index transfers_from on transfers (address_key(from_address), block_number);
-- serves: the transfers of a link that do not pay it, for its exception
create index transfers_misfit_link on transfers (link_id) where link_id is not null and not pays;

-- A merchant's own decisions about transfers, kept by place in the chain: applied again after a reorganisation and a rebuild.
create table assignments (
  updated_at timestamptz not null default now(),
  log_index int not null,
  -- pays its link although the value differs
  accept boolean not null default false,
  network text not null check (network in ('base', 'base-sepolia')),
  tx_hash text not null,
  user_id text not null references users on delete cascade,
  -- null: no link, whatever amount or early claim says
  link_id text references payment_links on delete cascade,
  primary key (network, tx_hash, log_index)
);

-- The ledger is compared with the chain, again and again: logs of every block a second time, balances of every wallet and nonces of every
-- account in turn.
create table reconciliations (
  id bigint generated always as identity primary key,
  from_block bigint not null,
  to_block bigint not null,
  created_at timestamptz not null default now(),
  -- transfers, wallets or accounts compared
  checked int not null,
  -- must be 0
  differences int not null,
  -- differences that were missing transfers and are in the ledger now
  repaired int not null default 0,
  network text not null check (network in ('base', 'base-sepolia')),
  -- LOGS: a range of blocks read again. BALANCES: wallets' balances at one final block. NONCES: accounts' nonces, compared with the
  -- operations that are recorded
  kind text not null check (kind in ('LOGS', 'BALANCES', 'NONCES')),
  details jsonb not null default '[]'
);
-- serves: the newest result of each kind; housekeeping
create index reconciliations_newest on reconciliations (network, kind, id desc);
