-- Smart-account wallets and payment links.

create table wallets (
  id text primary key,
  user_id text not null references users on delete cascade,
  network text not null check (network in ('base', 'base-sepolia')),
  address text not null check (address ~ '^0x[0-9a-f]{40}$'),
  passkey_id text not null references passkeys,
  -- what the address was computed from: never recomputed from today's configuration
  factory text not null check (factory ~ '^0x[0-9a-f]{40}$'),
  owners text[] not null,
  salt_nonce bigint not null default 0,
  deployed_at timestamptz,
  -- first block the indexer follows for this wallet; null until it joined at a block's edge
  indexed_from bigint,
  -- null until the blocks before indexed_from were read
  backfilled_at timestamptz,
  created_at timestamptz not null default now()
);
-- one wallet a user and network
create unique index wallets_user_network_key on wallets (user_id, network);
-- serves: which user does a transfer concern
create unique index wallets_network_address_key on wallets (network, address);
-- serves: the indexer looking for wallets that have not joined yet
create index wallets_waiting on wallets (network) where indexed_from is null or backfilled_at is null;

create table payment_links (
  id text primary key check (starts_with(id, 'link_')),
  user_id text not null references users on delete cascade,
  network text not null check (network in ('base', 'base-sepolia')),
  recipient text not null check (recipient ~ '^0x[0-9a-f]{40}$'),
  amount_units bigint not null check (amount_units between 1 and 1000000000000),
  description text not null check (length(description) between 1 and 500),
  status text not null default 'ACTIVE'
    check (status in ('ACTIVE', 'PENDING', 'PAID', 'EXPIRED', 'CANCELLED')),
  exception text not null default 'NONE'
    check (exception in ('NONE', 'PAID_LATE', 'UNDERPAID', 'OVERPAID', 'DUPLICATE')),
  refunded_units bigint not null default 0 check (refunded_units >= 0),
  expires_at timestamptz not null,
  -- block time of the transfer that paid it
  paid_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check ((status = 'PAID') = (paid_at is not null))
);
-- serves: a merchant's list, newest first, keyset (created_at, id)
create index payment_links_user_created on payment_links (user_id, created_at desc, id desc);
-- serves: the same with a status filter
create index payment_links_user_status_created on payment_links (user_id, status, created_at desc, id desc);
-- serves: which open link does a transfer of this amount to this wallet fit
create index payment_links_open on payment_links (network, recipient, amount_units)
  where status in ('ACTIVE', 'PENDING', 'EXPIRED');
-- serves: the job that expires links
create index payment_links_active_expiry on payment_links (expires_at) where status = 'ACTIVE';

-- What a payer's browser said it sent. A claim is a hint with a lease, never a proof.
create table claims (
  id text primary key,
  link_id text not null references payment_links on delete cascade,
  network text not null,
  tx_hash text not null check (tx_hash ~ '^0x[0-9a-f]{64}$'),
  client_address text not null check (client_address ~ '^0x[0-9a-f]{40}$'),
  state text not null default 'OPEN' check (state in ('OPEN', 'MATCHED', 'REJECTED', 'EXPIRED')),
  reason text,
  looks int not null default 0,
  lease_until timestamptz not null,
  request_id text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index claims_link_hash_key on claims (link_id, tx_hash);
-- serves: attribution of a transfer by the hash a payer named
create index claims_hash on claims (network, tx_hash) where state in ('OPEN', 'MATCHED');

-- Answers kept for a client's Idempotency-Key.
create table idempotency_keys (
  scope text not null,
  key text not null check (length(key) between 1 and 255),
  request_hash bytea not null,
  status int,
  body jsonb,
  created_at timestamptz not null default now(),
  primary key (scope, key)
);
-- serves: housekeeping
create index idempotency_keys_created on idempotency_keys (created_at);
