-- What is PENDING of a payment is not written into the history: payment and link say all of it. Its row is added once, by the block
-- that holds its transfer, or when it fails, instead of being added, replaced and entered into each index of ids twice.

-- The user who is paid; of facilitated payments, which are in no history, the zero. Deleted where the link of a payment is gone.
alter table open_payments add column owner uuid not null default '00000000-0000-0000-0000-000000000000';
update open_payments
set owner = owner_key(link.user_id)
from payments payment
join payment_links link on link.id = payment.link_id
where payment.id = open_payments.payment_id;
-- serves: open payments of a network, and of a user in each network
alter table open_payments drop constraint open_payments_pkey, add primary key (network, owner, payment_id);

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

-- Open payments as history rows, but those that have a row: accepted by the version before, failed and queued again, or taken out of
-- their block by a reorganisation. Ask for the owner.
create view unwritten_transactions as
  select
    history_id(payment.id) as id, link.user_id, payment.network, 'PAYMENT_LINK' as type, 'PENDING' as status,
    false as is_settled, open.owner, transaction_cell('PAYMENT_LINK', 'PENDING', payment.network) as cell,
    payment.amount_units::numeric(78, 0) as amount_units, payment.payer as counterparty, link.description,
    null::bytea as tx_hash, null::int as log_index, null::bigint as block_number, payment.link_id,
    payment.id as payment_id, null::text as claim_id, null::bigint as transfer_id, null::text as failure_reason,
    payment.created_at as detected_at, null::timestamptz as confirmed_at, payment.created_at,
    payment.created_at as updated_at, null::text as settled_by, null::text[] as candidates,
    null::bigint as operation_item_id, null::text as operation_id, null::text as operation_note, link.reference
  from open_payments open
  join payments payment on payment.id = open.payment_id
  join payment_links link on link.id = payment.link_id
  where open.network in ('base', 'base-sepolia')
    and payment.is_open
    and not exists (
      select from transactions written
      where written.payment_id = payment.id
    );

-- Everything that is PENDING.
create view pending_transactions as
  select
    id, user_id, network, type, status, is_settled, owner, cell, amount_units, counterparty, description, tx_hash,
    log_index, block_number, link_id, payment_id, claim_id, transfer_id, failure_reason, detected_at, confirmed_at,
    created_at, updated_at, settled_by, candidates, operation_item_id, operation_id, operation_note, reference
  from transactions
  where not is_settled
  union all
  select
    id, user_id, network, type, status, is_settled, owner, cell, amount_units, counterparty, description, tx_hash,
    log_index, block_number, link_id, payment_id, claim_id, transfer_id, failure_reason, detected_at, confirmed_at,
    created_at, updated_at, settled_by, candidates, operation_item_id, operation_id, operation_note, reference
  from unwritten_transactions;

-- The same of one user. A function has its plan from before: lists, which are planned as they are asked, do not plan these joins again.
create function unwritten_of(whose uuid) returns setof unwritten_transactions
  language plpgsql stable parallel safe rows 10 as $$
begin
  return query
  select
    one.id, one.user_id, one.network, one.type, one.status, one.is_settled, one.owner, one.cell,
    one.amount_units, one.counterparty, one.description, one.tx_hash, one.log_index, one.block_number,
    one.link_id, one.payment_id, one.claim_id, one.transfer_id, one.failure_reason, one.detected_at,
    one.confirmed_at, one.created_at, one.updated_at, one.settled_by, one.candidates, one.operation_item_id,
    one.operation_id, one.operation_note, one.reference
  from unwritten_transactions one
  where one.owner = whose;
end $$;

create function pending_of(whose uuid) returns setof pending_transactions
  language plpgsql stable parallel safe rows 10 as $$
begin
  return query
  select
    one.id, one.user_id, one.network, one.type, one.status, one.is_settled, one.owner, one.cell,
    one.amount_units, one.counterparty, one.description, one.tx_hash, one.log_index, one.block_number,
    one.link_id, one.payment_id, one.claim_id, one.transfer_id, one.failure_reason, one.detected_at,
    one.confirmed_at, one.created_at, one.updated_at, one.settled_by, one.candidates, one.operation_item_id,
    one.operation_id, one.operation_note, one.reference
  from pending_transactions one
  where one.owner = whose;
end $$;

create or replace view transactions_to_count as
  select user_id, owner_key(user_id) as owner, day, network, type, status, amount_bucket, count, units
  from transaction_count_deltas
  union all
  select
    user_id, owner, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), 1,
    amount_units
  from pending_transactions;

create or replace function note_added_payments() returns trigger language plpgsql as $$
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

-- A payment that fails without a row gets one here, whoever fails it: the version before only changes rows that are there.
create or replace function note_changed_payments() returns trigger language plpgsql as $$
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
      id, user_id, network, type, status, amount_units, counterparty, description, link_id, payment_id, failure_reason,
      detected_at, created_at
    )
    select
      history_id(failed.id), link.user_id, failed.network, 'PAYMENT_LINK', 'FAILED', failed.amount_units, failed.payer,
      link.description, failed.link_id, failed.id, failed.reason, failed.created_at, failed.created_at
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
    returning id, user_id, failure_reason
  )
  insert into events (user_id, type, subject_id, data)
  select user_id, 'transaction.failed', id, jsonb_build_object('reason', failure_reason)
  from written;
  return null;
end $$;

create or replace function note_removed_payments() returns trigger language plpgsql as $$
begin
  delete from open_payments
  using removed
  where open_payments.network = removed.network and open_payments.payment_id = removed.id;
  return null;
end $$;
