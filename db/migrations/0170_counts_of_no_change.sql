-- An insert that may update instead, and an update that finds nothing, call the trigger for changed rows as well: it ends before it counts nothing.
create or replace function count_changed_transactions() returns trigger language plpgsql as $$
begin
  if not exists (select from added) then
    return null;
  end if;
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
