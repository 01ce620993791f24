-- needs: all processes stopped
-- A history row names its user once: by owner, 16 bytes, and not by user_id as well, 42 bytes that say the same (owner_key). Rows written
-- before keep those bytes until they are written again. Nothing is rewritten: columns and indexes that stay are left as they are.

create function user_of(owner uuid) returns text
  language sql immutable strict parallel safe
  return 'user_' || owner::text;

-- Before the column is gone: every row's user must be the one that its owner stands for.
lock table transactions in access exclusive mode;
do $$
begin
  if exists (select from transactions where user_id <> user_of(owner)) then
    raise exception 'a row of transactions has a user_id that its owner does not stand for';
  end if;
end $$;

drop function unwritten_of(uuid);
drop function pending_of(uuid);
drop view transactions_to_count;
drop view pending_transactions;
drop view unwritten_transactions;

alter table transactions
  alter column owner drop expression,
  drop column user_id;

create view unwritten_transactions as
  select
    history_id(payment.id) as id, payment.network, 'PAYMENT_LINK' as type, 'PENDING' as status,
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

create view pending_transactions as
  select
    id, network, type, status, is_settled, owner, cell, amount_units, counterparty, description, tx_hash,
    log_index, block_number, link_id, payment_id, claim_id, transfer_id, failure_reason, detected_at, confirmed_at,
    created_at, updated_at, settled_by, candidates, operation_item_id, operation_id, operation_note, reference
  from transactions
  where not is_settled
  union all
  select
    id, network, type, status, is_settled, owner, cell, amount_units, counterparty, description, tx_hash,
    log_index, block_number, link_id, payment_id, claim_id, transfer_id, failure_reason, detected_at, confirmed_at,
    created_at, updated_at, settled_by, candidates, operation_item_id, operation_id, operation_note, reference
  from unwritten_transactions;

create function unwritten_of(whose uuid) returns setof unwritten_transactions
  language plpgsql stable parallel safe rows 10 as $$
begin
  return query
  select
    one.id, one.network, one.type, one.status, one.is_settled, one.owner, one.cell,
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
    one.id, one.network, one.type, one.status, one.is_settled, one.owner, one.cell,
    one.amount_units, one.counterparty, one.description, one.tx_hash, one.log_index, one.block_number,
    one.link_id, one.payment_id, one.claim_id, one.transfer_id, one.failure_reason, one.detected_at,
    one.confirmed_at, one.created_at, one.updated_at, one.settled_by, one.candidates, one.operation_item_id,
    one.operation_id, one.operation_note, one.reference
  from pending_transactions one
  where one.owner = whose;
end $$;

create view transactions_to_count as
  select user_id, owner_key(user_id) as owner, day, network, type, status, amount_bucket, count, units
  from transaction_count_deltas
  union all
  select
    user_of(owner) as user_id, owner, transaction_day(detected_at), network, type, status,
    transaction_amount_bucket(amount_units), 1, amount_units
  from pending_transactions;

create or replace function count_added_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_of(owner), transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units),
    count(*), sum(amount_units)
  from added
  where status <> 'PENDING'
  group by owner, 2, 3, 4, 5, 6;
  return null;
end $$;

create or replace function count_changed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_of(owner), transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units),
    sum(n), sum(n * amount_units)
  from (
    select owner, detected_at, network, type, status, amount_units, 1 as n from added where status <> 'PENDING'
    union all
    select owner, detected_at, network, type, status, amount_units, -1 from removed where status <> 'PENDING'
  ) changed
  group by owner, 2, 3, 4, 5, 6
  having sum(n) <> 0 or sum(n * amount_units) <> 0;
  return null;
end $$;

create or replace function count_removed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_of(owner), transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units),
    -count(*), -sum(amount_units)
  from removed
  where status <> 'PENDING'
  group by owner, 2, 3, 4, 5, 6;
  return null;
end $$;

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
