-- Relayed payments: an authorization that was accepted, and what became of it.

-- What names an authorization, in 16 bytes: its columns are 180 as text, in every entry of the index that keeps it unique.
create function authorization_digest(network text, token text, payer text, nonce text) returns uuid
  language sql immutable parallel safe
  return encode(substr(sha256((network || token || payer || nonce)::bytea), 1, 16), 'hex')::uuid;

--   QUEUED -> SIGNED -> BROADCAST -> MINED -> CONFIRMED ; QUEUED -> FAILED (reason)
create table payments (
  id text primary key,
  -- a payment of a link, or one settled for another service's resource on behalf of the user whose API key asked
  link_id text,
  facilitator_user_id text,
  facilitator_key_id text,
  network text not null check (network in ('base', 'base-sepolia')),
  token text not null,
  payer text not null check (payer ~ '^0x[0-9a-f]*$' and length(payer) = 42),
  payer_kind text not null check (payer_kind in ('EOA', 'CONTRACT')),
  recipient text not null check (recipient ~ '^0x[0-9a-f]*$' and length(recipient) = 42),
  amount_units bigint not null check (amount_units > 0),
  valid_after numeric(78, 0) not null,
  valid_before numeric(78, 0) not null,
  nonce text not null check (nonce ~ '^0x[0-9a-f]*$' and length(nonce) = 66),
  signature text not null,
  -- the indexer's cursor when the authorization was first accepted
  accepted_block bigint,
  state text not null default 'QUEUED'
    check (state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED', 'CONFIRMED', 'FAILED')),
  -- What indexes choose rows by. A condition on the state itself would make every change of it write all indexes anew; these change
  -- once in a payment's life or never, so the other changes stay in their page (HOT).
  is_live boolean not null generated always as (state <> 'FAILED') stored,
  is_open boolean not null generated always as (state in ('QUEUED', 'SIGNED', 'BROADCAST')) stored,
  reason text,
  -- what a payer reads beside the reason: figures of a limit
  reason_text text,
  relay_id bigint,
  -- where the chain settled it, whoever sent it
  tx_hash text,
  log_index int,
  block_number bigint,
  facilitated_mined_block bigint
    generated always as (case when link_id is null and state = 'MINED' then block_number end) stored,

  -- What went wrong so far, each kind for itself: a full queue or an unavailable node is no refusal.
  -- simulations in a row that refused it
  refusals int not null default 0,
  -- transactions of ours that carried it and were mined without settling it
  reverts int not null default 0,
  -- its batch reverted as a whole: next time it travels alone
  alone boolean not null default false,
  -- since when neither node nor relayer could serve it; null while they can
  unavailable_since timestamptz,
  next_try_at timestamptz not null default now(),

  -- A payment that ended while no node answered may have been executed by another transaction all the same. Until doubt_until the link's
  -- next payment asks the chain about it before anything is signed.
  doubt_since timestamptz,
  doubt_until timestamptz,

  idempotency_key text,
  request_id text,

  -- The one answer that reports the success of a facilitated payment: to whom, how far it has come (claimed, handed to an open
  -- connection, or cut before it was), who claimed it last, for which request (SHA-256 of its content), and when.
  told_to text,
  answer_state text constraint payments_answer_state check (answer_state in ('SENDING', 'SENT', 'CUT')),
  answer_claim text,
  answer_digest bytea,
  answered_at timestamptz,

  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint payments_one_purpose check (num_nonnulls(link_id, facilitator_user_id) = 1),
  constraint payments_reason_check check ((state = 'FAILED') = (reason is not null)),
  constraint payments_doubt_check check ((doubt_since is null) = (doubt_until is null))
) with (fillfactor = 80);
-- an authorization is accepted once, whatever link it is shown to
create unique index payments_authorization_key on payments (authorization_digest(network, token, payer, nonce));
-- one live payment a link
create unique index payments_live_link_key on payments (link_id) where is_live;
-- one payment attempt a client key and link (Idempotency-Key or x402 payment-identifier)
create unique index payments_idempotency_key on payments (link_id, idempotency_key)
  where idempotency_key is not null and is_live;
-- serves: the worker that takes queued payments, and payments that wait for the chain. Not by next_try_at: leases move it
create index payments_open on payments (network, created_at) where is_open;
-- serves: the payments of a relayed transaction
create index payments_relay on payments (relay_id) where relay_id is not null;
-- serves: how often did this payer's payments cost us gas in vain
create index payments_reverted on payments (network, payer) where reverts > 0;
-- serves: depth of facilitated payments, which have no transfer row when neither side is a wallet of ours
create index payments_facilitated_mined on payments (network, facilitated_mined_block)
  where facilitated_mined_block is not null;
-- serves: the open doubts of a link
create index payments_doubtful on payments (link_id) where doubt_until is not null;

-- Which queued payments a worker is working on, and until when: after that it has died. Unlogged, so that taking a payment writes
-- nothing into the log and leaves its wide row as it is. A crash of Postgres ends all leases; signing finds out under the payment's lock
-- that another worker was faster.
create unlogged table payment_leases (
  payment_id text primary key,
  until timestamptz not null
) with (fillfactor = 50);
