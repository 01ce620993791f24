-- Our own transactions on the chain: relayer keys, the nonces they have used, the signed bytes, and what they may cost.

-- A relayer key on a network, and the nonce it signs next.
create table relayers (
  next_nonce bigint not null check (next_nonce >= 0),
  created_at timestamptz not null default now(),
  network text not null check (network in ('base', 'base-sepolia')),
  address text not null check (address ~ '^0x[0-9a-f]{40}$'),
  primary key (network, address)
);

-- One transaction of ours: one nonce of one relayer key.
--   SIGNED -> BROADCAST -> MINED -> CONFIRMED ; SIGNED | BROADCAST -> LOST (another transaction used the nonce)
create table relays (
  id bigint generated always as identity primary key,
  nonce bigint not null,
  gas_limit bigint not null,
  created_at timestamptz not null default now(),
  mined_at timestamptz,
  block_number bigint,
  gas_used bigint,
  -- where in the bytes of the first attempt the call data is: stored once, for it is nearly all of them. 0: not in them
  call_data_start int not null,
  call_data_bytes int not null,
  -- polls of the chain that found the relay's nonce spent without any of its attempts
  misses int not null default 0,
  -- Its block left the chain. It was in no mempool when it was sent again, so its bytes are judged like new ones.
  is_reopened boolean not null default false,
  succeeded boolean,
  network text not null,
  relayer text not null,
  kind text not null check (kind in ('PAYMENTS', 'DEPLOY', 'NOOP', 'OPERATIONS')),
  state text not null default 'SIGNED' check (state in ('SIGNED', 'BROADCAST', 'MINED', 'CONFIRMED', 'LOST')),
  -- the wallet a DEPLOY relay creates
  wallet_id text references wallets on delete set null,
  call_to text not null,
  -- the attempt that was mined
  tx_hash text,
  block_hash text,
  fee_wei numeric(78, 0),
  foreign key (network, relayer) references relayers
)
-- each is replaced as it is sent, mined and confirmed: room for that in its page (HOT)
with (fillfactor = 70);
-- no nonce is used for two live transactions
create unique index relays_nonce_key on relays (network, relayer, nonce) where state <> 'LOST';
-- serves: the monitor that resends, raises fees and reads receipts
create index relays_in_flight on relays (network, relayer, nonce) where state in ('SIGNED', 'BROADCAST', 'MINED');
-- serves: is a deployment of this wallet in progress
create index relays_wallet on relays (wallet_id) where wallet_id is not null;

-- The signed bytes, stored before they are sent. A replacement adds a row with a higher fee.
create table relay_attempts (
  relay_id bigint not null,
  created_at timestamptz not null default now(),
  last_sent_at timestamptz,
  sends int not null default 0,
  -- does nothing but spend the nonce, when every authorization inside has expired
  is_noop boolean not null default false,
  tx_hash text primary key check (tx_hash ~ '^0x[0-9a-f]*$' and length(tx_hash) = 66),
  max_fee_per_gas numeric(78, 0) not null,
  max_priority_fee_per_gas numeric(78, 0) not null,
  -- payments of the relay that this attempt does not carry: their links were paid by another transaction before it was signed
  left_out text[] not null default '{}',
  last_answer text,
  -- null: dropped, long after the relay was final
  raw bytea
);
-- a replacement has another fee; serves: the attempts of a relay
create unique index relay_attempts_fee_key on relay_attempts (relay_id, max_fee_per_gas);
-- serves: retention of signed bytes
create index relay_attempts_bytes on relay_attempts (created_at) where raw is not null;

-- What relays cost, counted against budgets by UTC day. Scopes, units and subjects:
--   FEES (wei; the network)
--   MERCHANT (gas; the user whose links or API key were served)
--   REVERTED (gas; a contract payer's implementation)
--   SENDS (gas; the network): all sends and refunds together
--   SENDER (gas; the user who signed), reverted transactions included
create table relay_budgets (
  day date not null,
  network text not null check (network in ('base', 'base-sepolia')),
  scope text not null check (scope in ('FEES', 'MERCHANT', 'REVERTED', 'SENDS', 'SENDER')),
  subject text not null,
  -- of transactions that no block holds: the most they can cost
  reserved numeric(78, 0) not null default 0 check (reserved >= 0),
  -- of mined transactions
  used numeric(78, 0) not null default 0 check (used >= 0),
  -- the limit at the newest reservation; null: none
  maximum numeric(78, 0),
  primary key (network, scope, subject, day)
);
-- serves: deleting old days
create index relay_budgets_day on relay_budgets (day);

-- What one relay counts for in each budget; always in the day it was signed.
create table relay_charges (
  relay_id bigint not null,
  day date not null,
  -- payments of this subject that the relay carries
  items int not null,
  -- amount is what it did cost, not what it may cost
  settled boolean not null default false,
  network text not null,
  scope text not null,
  subject text not null,
  amount numeric(78, 0) not null check (amount >= 0),
  primary key (relay_id, scope, subject)
)
-- each row is replaced once, when its relay is mined: room for that in its page (HOT)
with (fillfactor = 75);
-- serves: deleting old days
create index relay_charges_day on relay_charges using brin (day);

-- The lease to monitor a network's transactions, so that several workers cost as much as one. It saves work alone: that two never do it at
-- once is the task of the work lock (db/postgres/work-lock.ts). A crash of Postgres ends all leases. Updated in place: half of the page is
-- free for that (HOT).
create unlogged table monitor_leases (
  until timestamptz not null,
  network text primary key check (network in ('base', 'base-sepolia')),
  holder text not null
) with (fillfactor = 50);
