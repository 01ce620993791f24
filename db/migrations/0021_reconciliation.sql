-- The books are compared with the chain, again and again: logs of every block a second time, balances of every wallet in turn.

-- blocks up to here were read a second time
alter table cursors add column rechecked_number bigint not null default 0;

-- balance before the first block that was read for this wallet; null until known
alter table wallets add column opening_units numeric(78, 0);
-- when its balance was last compared with the books
alter table wallets add column reconciled_at timestamptz;
-- serves: the wallets whose turn it is
create index wallets_reconciled on wallets (network, reconciled_at nulls first) where backfilled_at is not null;

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
  -- differences that were missing transfers and are in the books now
  repaired int not null default 0,
  details jsonb not null default '[]',
  created_at timestamptz not null default now()
);
-- serves: the newest result of each kind; housekeeping
create index reconciliations_newest on reconciliations (network, kind, id desc);
