-- A payment's way from QUEUED to its end changes no index of its row: each such update stays in its page (HOT) and writes one row version
-- instead of one and an entry in every index. What was found by those indexes is in two narrow tables, kept by triggers, so that no
-- statement can forget them, those of the version before included.

-- Payments that no block holds yet: accepted, and not settled or refused.
create table open_payments (
  network text not null,
  payment_id text not null,
  -- serves: the worker that takes queued payments, and the indexer that asks whether one waits
  primary key (network, payment_id)
);

-- The payments that a transaction of ours was signed for, once a transaction. One that was queued again, or carried by another
-- transaction since, is still named here: readers compare its relay_id.
create table relay_payments (
  relay_id bigint primary key,
  payment_ids text[] not null
);

create function note_added_payments() returns trigger language plpgsql as $$
begin
  insert into open_payments (network, payment_id)
  select network, id
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
create function note_changed_payments() returns trigger language plpgsql as $$
begin
  insert into open_payments (network, payment_id)
  select network, id from added where is_open
  except all
  select network, id from removed where is_open
  on conflict do nothing;
  delete from open_payments
  using (
    select network, id from removed where is_open
    except all
    select network, id from added where is_open
  ) ended
  where open_payments.network = ended.network and open_payments.payment_id = ended.id;
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

insert into open_payments (network, payment_id)
select network, id
from payments
where is_open;
insert into relay_payments (relay_id, payment_ids)
select relay_id, array_agg(id order by id)
from payments
where relay_id is not null
group by relay_id;

drop index payments_open;
drop index payments_relay;
