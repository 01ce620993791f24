-- Relayed payments and the transactions that carry them.

create table relayers (
  network text not null check (network in ('base', 'base-sepolia')),
  address text not null check (address ~ '^0x[0-9a-f]{40}$'),
  next_nonce bigint not null check (next_nonce >= 0),
  created_at timestamptz not null default now(),
  primary key (network, address)
);

-- One transaction of ours on the chain: one nonce of one relayer key.
--   SIGNED -> BROADCAST -> MINED -> CONFIRMED ; SIGNED | BROADCAST -> LOST (a stranger used the nonce)
create table relays (
  id bigint generated always as identity primary key,
  network text not null,
  relayer text not null,
  nonce bigint not null,
  kind text not null check (kind in ('PAYMENTS', 'DEPLOY', 'NOOP')),
  state text not null default 'SIGNED' check (state in ('SIGNED', 'BROADCAST', 'MINED', 'CONFIRMED', 'LOST')),
  call_to text not null,
  call_data text not null,
  gas_limit bigint not null,
  -- the attempt that was mined
  tx_hash text,
  block_number bigint,
  block_hash text,
  succeeded boolean,
  gas_used bigint,
  fee_wei numeric(78, 0),
  created_at timestamptz not null default now(),
  mined_at timestamptz,
  foreign key (network, relayer) references relayers
);
-- no nonce is used for two live transactions
create unique index relays_nonce_key on relays (network, relayer, nonce) where state <> 'LOST';
-- serves: the keeper that resends, bumps and reads receipts
create index relays_in_flight on relays (network, relayer, nonce) where state in ('SIGNED', 'BROADCAST', 'MINED');

-- The signed bytes, stored before they are sent. A replacement adds a row with a higher fee.
create table relay_attempts (
  tx_hash text primary key check (tx_hash ~ '^0x[0-9a-f]{64}$'),
  relay_id bigint not null references relays on delete cascade,
  raw text not null,
  max_fee_per_gas numeric(78, 0) not null,
  max_priority_fee_per_gas numeric(78, 0) not null,
  sends int not null default 0,
  last_sent_at timestamptz,
  last_answer text,
  created_at timestamptz not null default now()
);
create unique index relay_attempts_fee_key on relay_attempts (relay_id, max_fee_per_gas);

create table payments (
  id text primary key,
  link_id text not null references payment_links on delete cascade,
  network text not null check (network in ('base', 'base-sepolia')),
  token text not null,
  payer text not null check (payer ~ '^0x[0-9a-f]{40}$'),
  payer_kind text not null check (payer_kind in ('EOA', 'CONTRACT')),
  recipient text not null check (recipient ~ '^0x[0-9a-f]{40}$'),
  amount_units bigint not null check (amount_units > 0),
  valid_after numeric(78, 0) not null,
  valid_before numeric(78, 0) not null,
  nonce text not null check (nonce ~ '^0x[0-9a-f]{64}$'),
  signature text not null,
  state text not null default 'QUEUED'
    check (state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED', 'CONFIRMED', 'FAILED')),
  reason text,
  relay_id bigint references relays,
  -- where the chain settled it, whoever sent it
  tx_hash text,
  log_index int,
  block_number bigint,
  -- simulations in a row that refused it
  refusals int not null default 0,
  next_try_at timestamptz not null default now(),
  idempotency_key text,
  request_id text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check ((state = 'FAILED') = (reason is not null))
);
-- an authorization is accepted once, whatever link it is shown to
create unique index payments_authorization_key on payments (network, token, payer, nonce);
-- one live payment a link
create unique index payments_live_link_key on payments (link_id) where state <> 'FAILED';
-- serves: the drain that takes queued payments in order
create index payments_queued on payments (network, next_try_at, created_at) where state = 'QUEUED';
-- serves: the payments of a relayed transaction
create index payments_relay on payments (relay_id) where relay_id is not null;
-- serves: payments that wait for the chain
create index payments_unsettled on payments (network, state) where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED');
