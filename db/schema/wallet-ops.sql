-- Money out of passkey wallets and changes of their owners: user operations that a passkey signs and our relayers bundle.

-- What one signature changes about the owners of a user's wallets. For every network of the user it has an operation, each with its own
-- state.
create table owner_changes (
  id text primary key check (id ~ '^own_[0-9a-f]{44}$'),
  user_id text not null references users,
  action text not null check (action in ('ADD', 'REMOVE')),
  -- as the account stores it: 64 bytes of a passkey's key, or an address in 32 bytes
  owner text not null check (owner ~ '^0x([0-9a-f]{64}){1,2}$'),
  -- of this service's rows, if it is there
  passkey_id text references passkeys,
  -- whose passkey an addition adds, if a member's
  member_id text references users on delete set null,
  -- of an address; a passkey has its own
  name text check (length(name) between 1 and 100),
  created_at timestamptz not null default now()
);
-- serves: a user's changes, newest first
create index owner_changes_user on owner_changes (user_id, id desc);

-- One user operation of one wallet (ERC-4337, EntryPoint v0.6).
--   AWAITING_SIGNATURE -> QUEUED -> SIGNED -> BROADCAST -> MINED -> CONFIRMED | FAILED
--   AWAITING_SIGNATURE -> EXPIRED | CANCELLED, QUEUED -> FAILED; each of these -> MINED when its event appears after all
create table wallet_operations (
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  expires_at timestamptz not null,
  next_try_at timestamptz not null default now(),
  call_gas bigint not null,
  verification_gas bigint not null,
  queued_at timestamptz,
  relayed_at timestamptz,
  confirmed_at timestamptz,
  -- Its row was lost with a restored backup and made again from the chain. Its id has the random part it had, and another time.
  restored_at timestamptz,
  relay_id bigint references relays,
  block_number bigint,
  gas_used bigint,
  refusals int not null default 0,
  -- relays that were mined without running it
  missed_relays int not null default 0,
  owner_index int,
  log_index int,
  -- taken out of wallet_operations_live_key: voids, what was executed while it was not queued, and operations whose block was reorganised
  -- away
  is_extra boolean not null default false,
  -- signed without the chain's id, under a nonce key of its own: the same signature is valid on every network
  is_any_chain boolean not null default false,
  -- where the EntryPoint's event says that it ran (tx_hash, block_number, log_index), and whether its calls succeeded
  succeeded boolean,

  id text primary key check (id ~ '^(snd|rfd|own)_[0-9a-f]{44}$'),
  -- money has moved: a user who has operations is never deleted
  user_id text not null references users,
  wallet_id text not null references wallets,
  network text not null check (network in ('base', 'base-sepolia')),
  kind text not null check (kind in ('SEND', 'REFUND', 'OWNERS')),
  owner_change_id text references owner_changes,
  -- an empty operation that spends the nonce of this one
  void_of text references wallet_operations,
  state text not null default 'AWAITING_SIGNATURE' check (state in (
    'AWAITING_SIGNATURE', 'QUEUED', 'SIGNED', 'BROADCAST', 'MINED', 'CONFIRMED', 'FAILED', 'EXPIRED', 'CANCELLED'
  )),
  reason text,
  -- what it was when its event was seen, for a block that is reorganised away
  prior_state text,
  prior_reason text,
  user_op_hash text not null check (user_op_hash ~ '^0x[0-9a-f]{64}$'),
  account_nonce numeric(78, 0) not null check (account_nonce >= 0),
  call_data text not null,
  -- what was shown at preparation: who may sign under which owner index, warnings, balance
  terms jsonb not null,
  challenge_id text not null,
  idempotency_key text,
  request_hash bytea,
  request_id text,
  -- what was signed, by whom (under owner_index), and the assertion's SHA-256 by which a repeated confirmation is recognised
  passkey_id text references passkeys,
  signature text,
  assertion_hash bytea,
  tx_hash text,
  check ((state = 'FAILED') = (reason is not null)),
  check (state not in ('SIGNED', 'BROADCAST') or relay_id is not null),
  check (state not in ('QUEUED', 'SIGNED', 'BROADCAST') or signature is not null),
  check (state not in ('MINED', 'CONFIRMED') or (tx_hash is not null and succeeded is not null)),
  check (state <> 'CONFIRMED' or succeeded),
  constraint wallet_operations_owners_check check ((kind = 'OWNERS') = (owner_change_id is not null))
);
-- the id in the call data makes each hash its own; serves: the operation of an event
create unique index wallet_operations_hash_key on wallet_operations (network, user_op_hash);
-- A wallet has one live operation: the account's nonces are used in order. Operations for every network have their own nonces and wait,
-- where the account is not deployed, for its first send: they hold no other operation up.
create unique index wallet_operations_live_key on wallet_operations (wallet_id)
  where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED') and not is_extra and not is_any_chain;
-- a nonce has one live operation
create unique index wallet_operations_any_chain_key on wallet_operations (wallet_id, account_nonce)
  where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED') and not is_extra and is_any_chain;
-- an Idempotency-Key has one preparation; those that ended unsigned free theirs
create unique index wallet_operations_idempotency_key on wallet_operations (user_id, kind, idempotency_key)
  where idempotency_key is not null and state not in ('EXPIRED', 'CANCELLED');
-- serves: a user's list, newest first
create index wallet_operations_user on wallet_operations (user_id, kind, id desc);
-- serves: failed sends of the last hour, of a user and of all
create index wallet_operations_failed on wallet_operations (user_id, queued_at) where state = 'FAILED';
-- serves: is the nonce of an operation spent by another one
create index wallet_operations_nonce on wallet_operations (wallet_id, account_nonce);
-- serves: the operations of a change of owners
create index wallet_operations_owner_change on wallet_operations (owner_change_id) where owner_change_id is not null;
-- serves: the worker that takes queued operations in order
create index wallet_operations_queued on wallet_operations (network, next_try_at) where state = 'QUEUED';
-- serves: operations that wait for the chain
create index wallet_operations_open on wallet_operations (network, state)
  where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED');
-- serves: the operations of a relay
create index wallet_operations_relay on wallet_operations (relay_id) where relay_id is not null;
-- serves: expiring what was not signed in time
create index wallet_operations_unsigned on wallet_operations (expires_at) where state = 'AWAITING_SIGNATURE';
-- serves: undoing blocks
create index wallet_operations_height on wallet_operations (network, block_number) where block_number is not null;
-- serves: finding a restored operation by the id it had
create index wallet_operations_restored on wallet_operations (right(id, 32)) where restored_at is not null;

-- The transfers of an operation: who gets how much. Its history row in transactions is opened when it is confirmed by its owner.
create table wallet_operation_items (
  id bigint generated always as identity primary key,
  amount_units bigint not null check (amount_units > 0),
  position int not null,
  is_fee boolean not null default false,
  operation_id text not null references wallet_operations on delete cascade,
  to_address text not null check (to_address ~ '^0x[0-9a-f]{40}$'),
  note text not null default '' check (length(note) <= 500),
  unique (operation_id, position)
);

-- Every UserOperationEvent of a wallet of ours, whoever sent the operation: which nonces are spent, by what. Written by the indexer.
create table wallet_operation_events (
  block_number bigint not null,
  log_index int not null,
  succeeded boolean not null,
  network text not null,
  block_hash text not null,
  tx_hash text not null,
  user_op_hash text not null,
  sender text not null,
  nonce numeric(78, 0) not null,
  gas_used numeric(78, 0) not null,
  failure text,
  primary key (network, block_hash, log_index)
);
-- serves: which operation spent a nonce
create index wallet_operation_events_nonce on wallet_operation_events (network, sender, nonce);
-- serves: undoing blocks
create index wallet_operation_events_height on wallet_operation_events (network, block_number);

-- Money of a link that goes back. The operation that moves it has the same id; a refund without one was only asked for, by an operator or
-- a program, until an owner of the wallet prepares it.
create table refunds (
  amount_units bigint not null check (amount_units > 0),
  created_at timestamptz not null default now(),
  -- declined or withdrawn before anything was signed
  cancelled_at timestamptz,
  paid_log_index int not null,
  id text primary key check (id ~ '^rfd_[0-9a-f]{44}$'),
  user_id text not null references users,
  link_id text not null references payment_links,
  network text not null check (network in ('base', 'base-sepolia')),
  -- the transfer whose money it is, by its place in the chain (with paid_log_index): a rebuild recreates rows of transfers
  paid_tx_hash text not null,
  to_address text not null check (to_address ~ '^0x[0-9a-f]{40}$'),
  to_source text not null check (to_source in ('x402_payer', 'transfer_sender', 'given')),
  reason text check (length(reason) between 1 and 500),
  -- who asked: a user or an API key; null for one that its owner prepared at once
  requested_by text check (requested_by ~ '^(user|key)_'),
  -- Idempotency-Key of that request
  request_key text,
  request_hash bytea,
  constraint refunds_request_hash_check check ((request_key is null) = (request_hash is null))
);
-- serves: what is left of a link's money, and its refunds, newest first
create index refunds_link on refunds (link_id, id desc);
-- serves: a user's refunds, newest first
create index refunds_user on refunds (user_id, id desc);
-- an Idempotency-Key has one request; a cancelled one frees its key
create unique index refunds_request_key on refunds (user_id, request_key)
  where request_key is not null and cancelled_at is null;

-- Logs of the accounts themselves, AddOwner, RemoveOwner and Upgraded: what changes who may spend from a wallet, as the chain says, whoever
-- sent it. Written by the indexer.
create table account_changes (
  block_number bigint not null,
  owner_index bigint,
  -- null until its block is deep enough
  confirmed_at timestamptz,
  log_index int not null,
  network text not null,
  block_hash text not null,
  tx_hash text not null,
  wallet_address text not null,
  type text not null check (type in ('OWNER_ADDED', 'OWNER_REMOVED', 'UPGRADED')),
  -- the owner, or the new implementation
  subject text not null,
  primary key (network, block_hash, log_index)
);
-- serves: is a key an owner at present
create index account_changes_subject on account_changes (network, wallet_address, subject, block_number desc, log_index desc);
-- serves: undoing blocks
create index account_changes_height on account_changes (network, block_number);
-- serves: what waits for its depth
create index account_changes_unconfirmed on account_changes (network, block_number) where confirmed_at is null;
