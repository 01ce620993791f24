-- Smart-account wallets: what their address was computed from, and how far the ledger knows them.
create table wallets (
  id text primary key,
  user_id text not null references users on delete cascade,
  network text not null check (network in ('base', 'base-sepolia')),
  address bytea not null check (octet_length(address) = 20),
  passkey_id text not null references passkeys,
  -- what the address was computed from: never recomputed from today's configuration
  factory text not null check (factory ~ '^0x[0-9a-f]*$' and length(factory) = 42),
  owners text[] not null,
  salt_nonce bigint not null default 0,
  deployed_at timestamptz,
  created_at timestamptz not null default now(),

  -- first block the indexer follows for this wallet; null until it joined at a block's edge
  indexed_from bigint,
  -- null until the blocks before indexed_from were read
  backfilled_at timestamptz,
  -- balance before the first block that was read for this wallet; null until known
  opening_units numeric(78, 0),

  -- The comparison with the chain continues a running sum, so that it costs what the wallet gained since, not its whole life.
  -- when its balance was last compared with the ledger
  reconciled_at timestamptz,
  -- balance on the chain minus what the ledger says, when last compared: kept until a later comparison clears it
  difference_units numeric(78, 0) not null default 0,
  -- sum of its transfers up to block booked_number, as compared last
  booked_units numeric(78, 0) not null default 0,
  booked_number bigint not null default -1,
  -- raised by whatever changes transfers at or below booked_number: a sum that was read before is not stored
  booked_version bigint not null default 0,
  -- its sum takes more than one round: due until it was compared
  is_counting boolean not null default false,
  -- the sum that is counted again from the first transfer, at a low pace, and its block
  recount_units numeric(78, 0),
  recount_number bigint
);
-- a user has one wallet a network
create unique index wallets_user_network_key on wallets (user_id, network);
-- serves: which user does a transfer concern
create unique index wallets_network_address_key on wallets (network, address);
-- A million wallets may wait at once (a first start on old data): each queue is read from its front.
-- serves: wallets that have not joined yet
create index wallets_unjoined on wallets (network) where indexed_from is null;
-- serves: wallets whose blocks before they joined are to be read, oldest first
create index wallets_unread on wallets (network, created_at) where backfilled_at is null;
-- serves: the wallets whose turn it is to be reconciled
create index wallets_reconciled on wallets (network, reconciled_at nulls first) where backfilled_at is not null;
-- serves: wallets whose sum is being made
create index wallets_counting on wallets (network) where is_counting;
-- serves: how many differ
create index wallets_differing on wallets (network) where difference_units <> 0;
