-- What changes who may spend from a wallet, as the chain says, whoever sent it; and the mails by which users learn of it.

-- Logs of the accounts themselves: AddOwner, RemoveOwner, Upgraded. Written by the indexer.
create table account_changes (
  network text not null,
  block_number bigint not null,
  block_hash text not null,
  tx_hash text not null,
  log_index int not null,
  wallet_address text not null,
  type text not null check (type in ('OWNER_ADDED', 'OWNER_REMOVED', 'UPGRADED')),
  owner_index bigint,
  -- the owner, or the new implementation
  subject text not null,
  -- null until its block is deep enough
  confirmed_at timestamptz,
  primary key (network, block_hash, log_index)
);
-- serves: is a key an owner now
create index account_changes_subject on account_changes (network, wallet_address, subject, block_number desc, log_index desc);
-- serves: undoing blocks
create index account_changes_height on account_changes (network, block_number);
-- serves: what waits for its depth
create index account_changes_unconfirmed on account_changes (network, block_number) where confirmed_at is null;

-- blocks up to here were searched for such logs; null until the first search, which begins at the depth of that time
alter table cursors add column account_logs_number bigint;

create table notices (
  id bigint generated always as identity primary key,
  user_id text not null references users on delete cascade,
  kind text not null,
  -- what it is about: reported once
  key text not null,
  details jsonb not null default '{}',
  sent_at timestamptz,
  created_at timestamptz not null default now(),
  unique (user_id, key)
);
-- serves: retention
create index notices_created on notices using brin (created_at);
