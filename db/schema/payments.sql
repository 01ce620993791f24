-- Relayed payments: an authorization that was accepted, and what became of it.

-- What names an authorization, in 16 bytes instead of 72 and the network's name.
create function authorization_digest(network text, token bytea, payer bytea, nonce bytea) returns uuid
  language sql immutable parallel safe
  return encode(substr(sha256(network::bytea || token || payer || nonce), 1, 16), 'hex')::uuid;

-- One authorization (ERC-3009).
--   QUEUED -> SIGNED -> BROADCAST -> MINED -> CONFIRMED ; QUEUED -> FAILED (reason)
-- On this way no index of its row changes but the summary of heights, so each such update stays in its page (HOT; that of the height from
-- Postgres 16 on) and writes one row version alone. What would be found by indexes of the state and the relay is in open_payments and
-- relay_payments instead, kept by triggers.
-- Columns go by size, the largest first, which saves their padding in every row. Those that such an update changes stand side by side: it
-- logs what lies between the first and the last changed byte.
create table payments (
  amount_units bigint not null check (amount_units > 0),
  created_at timestamptz not null default now(),
  next_try_at timestamptz not null default now(),
  -- the indexer's cursor when the authorization was first accepted
  accepted_block bigint,
  -- What went wrong so far, each kind for itself: a full queue or an unavailable node is no refusal.
  -- simulations in a row that refused it
  refusals int not null default 0,
  -- transactions of ours that carried it and were mined without settling it
  reverts int not null default 0,

  updated_at timestamptz not null default now(),
  relay_id bigint,
  -- where the chain settled it, whoever sent it: tx_hash, block_number, log_index
  block_number bigint,
  -- depth of facilitated payments, which may have no transfer row
  facilitated_mined_block bigint
    generated always as (case when link_id is null and state = 'MINED' then block_number end) stored,
  -- since when neither node nor relayer could serve it; null while they can
  unavailable_since timestamptz,
  -- A payment that ended while no node answered may have been executed by another transaction all the same. Until doubt_until the link's
  -- next payment asks the chain about it before anything is signed.
  doubt_since timestamptz,
  doubt_until timestamptz,
  -- of the answer below
  answered_at timestamptz,
  log_index int,
  -- What indexes and triggers choose rows by: these change once in a payment's life, or never.
  is_open boolean not null generated always as (state in ('QUEUED', 'SIGNED', 'BROADCAST')) stored,
  is_live boolean not null generated always as (state <> 'FAILED') stored,
  -- its batch reverted as a whole: next time it travels alone
  alone boolean not null default false,
  state text not null default 'QUEUED'
    check (state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED', 'CONFIRMED', 'FAILED')),
  tx_hash bytea,
  reason text,
  -- what a payer reads beside the reason: figures of a limit
  reason_text text,

  id text primary key,
  -- a payment of a link, or one settled for another service's resource on behalf of the user whose API key asked
  link_id text,
  network text not null check (network in ('base', 'base-sepolia')),
  -- what the payer signed
  token bytea not null,
  payer bytea not null,
  payer_kind text not null check (payer_kind in ('EOA', 'CONTRACT')),
  recipient bytea not null,
  valid_after numeric(78, 0) not null,
  valid_before numeric(78, 0) not null,
  nonce bytea not null,
  signature bytea not null,
  facilitator_user_id text,
  facilitator_key_id text,
  idempotency_key text,
  -- of the page that the payer was shown
  payer_language text
    check (payer_language in ('en', 'es', 'pt-BR', 'fr', 'de', 'tr', 'ar', 'hi', 'id', 'vi', 'zh-Hans')),
  -- The one answer that reports the success of a facilitated payment: to whom, how far it has come (claimed, handed to an open
  -- connection, or cut before it was), who claimed it last, and for which request (SHA-256 of its content).
  told_to text,
  answer_state text constraint payments_answer_state check (answer_state in ('SENDING', 'SENT', 'CUT')),
  answer_claim text,
  answer_digest bytea,

  constraint payments_one_purpose check (num_nonnulls(link_id, facilitator_user_id) = 1),
  constraint payments_reason_check check ((state = 'FAILED') = (reason is not null)),
  constraint payments_doubt_check check ((doubt_since is null) = (doubt_until is null)),
  constraint payments_lengths_check check (
    octet_length(token) = 20 and octet_length(payer) = 20 and octet_length(recipient) = 20
    and octet_length(nonce) = 32 and octet_length(tx_hash) = 32
  )
)
-- A batch of payments that were accepted together is signed by one statement: a page holds nine payments and the versions that are signed
-- at once.
with (fillfactor = 46);
-- an authorization is accepted once, whatever link it is shown to
create unique index payments_authorization_key on payments (authorization_digest(network, token, payer, nonce));
-- a link has one live payment
create unique index payments_live_link_key on payments (link_id) where is_live;
-- a client's key (Idempotency-Key or x402 payment-identifier) has one payment attempt a link
create unique index payments_idempotency_key on payments (link_id, idempotency_key)
  where idempotency_key is not null and is_live;
-- serves: how often did this payer's payments cost us gas in vain
create index payments_reverted on payments (network, payer) where reverts > 0;
-- serves: depth of facilitated payments
create index payments_facilitated_mined on payments (network, facilitated_mined_block)
  where facilitated_mined_block is not null;
-- serves: the open doubts of a link
create index payments_doubtful on payments (link_id) where doubt_until is not null;

-- Payments that no block holds yet: accepted, and not settled or refused.
create table open_payments (
  -- The user who is paid; of facilitated payments, which are in no history, the zero. Deleted where the link of a payment is gone.
  owner uuid not null default '00000000-0000-0000-0000-000000000000',
  network text not null,
  payment_id text not null,
  -- serves: the worker that takes queued payments, the indexer that asks whether one waits, and what is PENDING of a user in each network
  primary key (network, owner, payment_id)
);

-- The payments that a transaction of ours was signed for, once a transaction. One that was queued again, or carried by another
-- transaction since, is still named here: readers compare its relay_id.
create table relay_payments (
  relay_id bigint primary key,
  payment_ids text[] not null
);

-- The user who is paid by a payment of this link.
create function open_payment_owner(link_id text) returns uuid
  language sql stable parallel safe
  return coalesce(
    (select owner_key(user_id) from payment_links where payment_links.id = link_id),
    '00000000-0000-0000-0000-000000000000'
  );

-- The id of a payment's history row.
create function history_id(payment_id text) returns text
  language sql immutable parallel safe
  return 'txn_' || substr(payment_id, 5);

-- What a statement added, changed and removed, in open_payments and relay_payments.
create function note_added_payments() returns trigger language plpgsql as $$
begin
  insert into open_payments (network, payment_id, owner)
  select network, id, open_payment_owner(link_id)
  from added
  where is_open;
  insert into relay_payments (relay_id, payment_ids)
  select relay_id, array_agg(id order by id)
  from added
  where relay_id is not null
  group by relay_id
  on conflict (relay_id) do update
  set payment_ids = relay_payments.payment_ids || excluded.payment_ids;
  return null;
end $$;

-- Compared as sets, not joined: a plan made for a few rows is kept for statements that change all.
-- A payment has no row in the history while it is open (unwritten_transactions). One that fails without such a row gets it here, whoever
-- fails it.
create function note_changed_payments() returns trigger language plpgsql as $$
begin
  insert into open_payments (network, payment_id, owner)
  select network, id, open_payment_owner(link_id)
  from (
    select network, id, link_id from added where is_open
    except all
    select network, id, link_id from removed where is_open
  ) opened
  on conflict do nothing;
  delete from open_payments
  using (
    select network, id, open_payment_owner(link_id) as owner
    from (
      select network, id, link_id from removed where is_open
      except all
      select network, id, link_id from added where is_open
    ) closed
  ) ended
  where open_payments.network = ended.network
    and open_payments.owner = ended.owner
    and open_payments.payment_id = ended.id;
  insert into relay_payments (relay_id, payment_ids)
  select relay_id, array_agg(id order by id)
  from (
    select relay_id, id from added where relay_id is not null
    except all
    select relay_id, id from removed where relay_id is not null
  ) bound
  group by relay_id
  on conflict (relay_id) do update
  set payment_ids = relay_payments.payment_ids || excluded.payment_ids;
  with written as (
    insert into transactions (
      id, owner, network, type, status, amount_units, counterparty, description, link_id, payment_id, failure_reason,
      detected_at, created_at
    )
    select
      history_id(failed.id), owner_key(link.user_id), failed.network, 'PAYMENT_LINK', 'FAILED', failed.amount_units,
      failed.payer, link.description, failed.link_id, failed.id, failed.reason, failed.created_at, failed.created_at
    from (
      select id, network, amount_units, payer, link_id, reason, created_at
      from added
      where state = 'FAILED' and id = any(array(select id from removed where is_open))
    ) failed
    join payment_links link on link.id = failed.link_id
    where not exists (
      select from transactions
      where transactions.payment_id = failed.id
    )
    returning id, owner, failure_reason
  )
  insert into events (user_id, type, subject_id, data)
  select user_of(owner), 'transaction.failed', id, jsonb_build_object('reason', failure_reason)
  from written;
  return null;
end $$;

create function note_removed_payments() returns trigger language plpgsql as $$
begin
  delete from open_payments
  using removed
  where open_payments.network = removed.network and open_payments.payment_id = removed.id;
  return null;
end $$;

create trigger payments_note_added after insert on payments
  referencing new table as added
  for each statement execute function note_added_payments();
create trigger payments_note_changed after update on payments
  referencing old table as removed new table as added
  for each statement execute function note_changed_payments();
create trigger payments_note_removed after delete on payments
  referencing old table as removed
  for each statement execute function note_removed_payments();

-- Which request a payment came with, for log lines while it is in flight: kept for an hour beside the payments, not in each of them for
-- good. Unlogged: a crash of Postgres ends them.
create unlogged table payment_requests (
  created_at timestamptz not null default now(),
  payment_id text primary key,
  request_id text not null
);

-- Which queued payments a worker is working on, and until when: after that it has died. Unlogged, so that taking a payment writes
-- nothing into the log and leaves its wide row as it is. A crash of Postgres ends all leases; signing finds out under the payment's lock
-- that another worker was faster. Inserted and deleted, hardly ever updated: its pages need no free space for HOT updates.
create unlogged table payment_leases (
  payment_id text primary key,
  until timestamptz not null
) with (fillfactor = 100);

-- One worker at a time drains a network's payments, so that further workers do not split the batches that make a payment cheap. A
-- crash of Postgres ends all leases. Updated in place: half of the page is free for that (HOT).
create unlogged table drain_leases (
  until timestamptz not null,
  network text primary key check (network in ('base', 'base-sepolia')),
  holder text not null
) with (fillfactor = 50);
