-- Money out of passkey wallets: user operations that a passkey signs and our relayers bundle.

-- One user operation of one wallet (ERC-4337, EntryPoint v0.6).
--   AWAITING_SIGNATURE -> QUEUED -> SIGNED -> BROADCAST -> MINED -> CONFIRMED | FAILED
--   AWAITING_SIGNATURE -> EXPIRED | CANCELLED, QUEUED -> FAILED; each of these -> MINED when its event appears after all
create table wallet_operations (
  id text primary key check (id ~ '^(snd|rfd|own)_[0-9a-f]{44}$'),
  -- money has moved: a user who has operations is never deleted
  user_id text not null references users,
  wallet_id text not null references wallets,
  network text not null check (network in ('base', 'base-sepolia')),
  kind text not null check (kind in ('SEND', 'REFUND', 'OWNERS')),
  state text not null default 'AWAITING_SIGNATURE' check (state in (
    'AWAITING_SIGNATURE', 'QUEUED', 'SIGNED', 'BROADCAST', 'MINED', 'CONFIRMED', 'FAILED', 'EXPIRED', 'CANCELLED'
  )),
  user_op_hash text not null check (user_op_hash ~ '^0x[0-9a-f]{64}$'),
  account_nonce numeric(78, 0) not null check (account_nonce >= 0),
  call_data text not null,
  call_gas bigint not null,
  verification_gas bigint not null,
  -- what was shown at preparation: who may sign under which owner index, warnings, balance
  terms jsonb not null,
  challenge_id text not null,
  -- an empty operation that spends the nonce of this one
  void_of text references wallet_operations,
  idempotency_key text,
  request_hash bytea,
  request_id text,
  -- what was signed, by whom, and the assertion's SHA-256 by which a repeated confirmation is recognised
  passkey_id text references passkeys,
  owner_index int,
  signature text,
  assertion_hash bytea,
  relay_id bigint references relays,
  -- relays that were mined without running it
  missed_relays int not null default 0,
  -- where the EntryPoint's event says that it ran, and whether its calls succeeded
  tx_hash text,
  log_index int,
  block_number bigint,
  succeeded boolean,
  gas_used bigint,
  -- what it was when that event was seen, for a block that is reorganised away
  prior_state text,
  prior_reason text,
  reason text,
  -- taken out of wallet_operations_live_key: voids, and operations whose block was reorganised away
  is_extra boolean not null default false,
  refusals int not null default 0,
  next_try_at timestamptz not null default now(),
  expires_at timestamptz not null,
  queued_at timestamptz,
  relayed_at timestamptz,
  confirmed_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check ((state = 'FAILED') = (reason is not null)),
  check (state not in ('SIGNED', 'BROADCAST') or relay_id is not null),
  check (state not in ('QUEUED', 'SIGNED', 'BROADCAST') or signature is not null),
  check (state not in ('MINED', 'CONFIRMED') or (tx_hash is not null and succeeded is not null)),
  check (state <> 'CONFIRMED' or succeeded)
);
-- serves: the operation of an event; the id in the call data makes each hash its own
create unique index wallet_operations_hash_key on wallet_operations (network, user_op_hash);
-- one live operation a wallet: the account's nonces are used in order
create unique index wallet_operations_live_key on wallet_operations (wallet_id)
  where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED') and not is_extra;
-- one preparation an Idempotency-Key; those that ended unsigned free theirs
create unique index wallet_operations_idempotency_key on wallet_operations (user_id, kind, idempotency_key)
  where idempotency_key is not null and state not in ('EXPIRED', 'CANCELLED');
-- serves: a user's list, newest first
create index wallet_operations_user on wallet_operations (user_id, kind, id desc);
-- serves: is the nonce of an operation spent by another one
create index wallet_operations_nonce on wallet_operations (wallet_id, account_nonce);
-- serves: the worker that takes queued operations in order
create index wallet_operations_queued on wallet_operations (network, next_try_at) where state = 'QUEUED';
-- serves: operations that wait for the chain
create index wallet_operations_open on wallet_operations (network, state)
  where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED');
-- serves: the operations of a relay
create index wallet_operations_relay on wallet_operations (relay_id) where relay_id is not null;
-- serves: expiring what nobody signed
create index wallet_operations_unsigned on wallet_operations (expires_at) where state = 'AWAITING_SIGNATURE';
-- serves: undoing blocks
create index wallet_operations_height on wallet_operations (network, block_number) where block_number is not null;

create table wallet_operation_items (
  id bigint generated always as identity primary key,
  operation_id text not null references wallet_operations on delete cascade,
  position int not null,
  to_address text not null check (to_address ~ '^0x[0-9a-f]{40}$'),
  amount_units bigint not null check (amount_units > 0),
  note text not null default '' check (length(note) <= 500),
  is_fee boolean not null default false,
  unique (operation_id, position)
);

-- Every UserOperationEvent of a wallet of ours, whoever sent the operation: which nonces are spent, by what. Written by the indexer.
create table wallet_operation_events (
  network text not null,
  block_number bigint not null,
  block_hash text not null,
  tx_hash text not null,
  log_index int not null,
  user_op_hash text not null,
  sender text not null,
  nonce numeric(78, 0) not null,
  succeeded boolean not null,
  gas_used numeric(78, 0) not null,
  failure text,
  primary key (network, block_hash, log_index)
);
-- serves: which operation spent a nonce
create index wallet_operation_events_nonce on wallet_operation_events (network, sender, nonce);
-- serves: undoing blocks
create index wallet_operation_events_height on wallet_operation_events (network, block_number);

alter table relays
  drop constraint relays_kind_check,
  add constraint relays_kind_check check (kind in ('PAYMENTS', 'DEPLOY', 'NOOP', 'OPERATIONS'));

-- the history row of an operation's transfer, opened when it was confirmed by its owner
alter table transactions
  add column operation_item_id bigint references wallet_operation_items on delete set null,
  add column operation_id text,
  add column operation_note text;
create unique index transactions_operation_item_key on transactions (operation_item_id)
  where operation_item_id is not null;
-- serves: the rows of an operation
create index transactions_operation on transactions (operation_id) where operation_id is not null;
