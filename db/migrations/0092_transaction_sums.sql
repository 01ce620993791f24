-- The history's counters by day also hold amounts, for sums by type and status that cost what counts cost. Existing rows are counted anew,
-- which blocks writers for some seconds a million rows.
lock table transactions, transaction_count_deltas in share row exclusive mode;

alter table transaction_count_deltas add column units numeric(78, 0) not null default 0;
alter table transaction_counts add column units numeric(78, 0) not null default 0;

create or replace function count_added_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), count(*),
    sum(amount_units)
  from added
  where status <> 'PENDING'
  group by 1, 2, 3, 4, 5, 6;
  return null;
end $$;

create or replace function count_removed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), -count(*),
    -sum(amount_units)
  from removed
  where status <> 'PENDING'
  group by 1, 2, 3, 4, 5, 6;
  return null;
end $$;

create or replace function count_changed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count, units)
  select
    user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), sum(n),
    sum(n * amount_units)
  from (
    select user_id, detected_at, network, type, status, amount_units, 1 as n from added where status <> 'PENDING'
    union all
    select user_id, detected_at, network, type, status, amount_units, -1 from removed where status <> 'PENDING'
  ) changed
  group by 1, 2, 3, 4, 5, 6
  having sum(n) <> 0 or sum(n * amount_units) <> 0;
  return null;
end $$;

create or replace view transactions_to_count as
  select user_id, owner_key(user_id) as owner, day, network, type, status, amount_bucket, count, units
  from transaction_count_deltas
  union all
  select
    user_id, owner, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), 1,
    amount_units
  from transactions
  where not is_settled;

delete from transaction_count_deltas;
delete from transaction_counts;
insert into transaction_counts (user_id, day, network, type, status, count, units)
select
  user_id, coalesce(day, 'infinity'), coalesce(network, '*'), coalesce(type, '*'), coalesce(status, '*'), count(*),
  sum(amount_units)
from (select *, transaction_day(detected_at) as day from transactions where is_settled) rows
group by grouping sets (
  (user_id, day, network, type, status), (user_id, network, type, status), (user_id, day), (user_id)
);
delete from transaction_amount_counts;
insert into transaction_amount_counts (user_id, network, type, status, bucket, count)
select user_id, coalesce(network, '*'), coalesce(type, '*'), coalesce(status, '*'), bucket, count(*)
from (select *, transaction_amount_bucket(amount_units) as bucket from transactions where is_settled) rows
group by grouping sets ((user_id, bucket, network, type, status), (user_id, bucket));
