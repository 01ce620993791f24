-- The counters of a hundred neighbouring amount buckets in one: those of one first digit. A total between amounts adds at most two hundred
-- counters and forty of these a cell, instead of up to several thousand counters.
create table transaction_wide_amount_counts (
  owner uuid not null,
  -- 0: the sum of all cells
  cell smallint not null,
  -- the first of the hundred
  bucket int not null,
  count bigint not null,
  primary key (owner, cell, bucket)
) with (fillfactor = 75);

-- By triggers: whoever folds differences into the counters keeps these, too.
create function widen_added_amount_counts() returns trigger language plpgsql as $$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, sum(count)
  from added
  group by 1, 2, 3
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $$;

create function widen_changed_amount_counts() returns trigger language plpgsql as $$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, sum(count)
  from (
    select user_id, network, type, status, bucket, count from added
    union all
    select user_id, network, type, status, bucket, -count from removed
  ) changed
  group by 1, 2, 3
  having sum(count) <> 0
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $$;

create function widen_removed_amount_counts() returns trigger language plpgsql as $$
begin
  insert into transaction_wide_amount_counts as wide (owner, cell, bucket, count)
  select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, -sum(count)
  from removed
  group by 1, 2, 3
  on conflict (owner, cell, bucket) do update
  set count = wide.count + excluded.count;
  return null;
end $$;

-- from here on a fold waits for the end of this migration; readers do not
create trigger transaction_amount_counts_added after insert on transaction_amount_counts
  referencing new table as added
  for each statement execute function widen_added_amount_counts();
create trigger transaction_amount_counts_changed after update on transaction_amount_counts
  referencing new table as added old table as removed
  for each statement execute function widen_changed_amount_counts();
create trigger transaction_amount_counts_removed after delete on transaction_amount_counts
  referencing old table as removed
  for each statement execute function widen_removed_amount_counts();

insert into transaction_wide_amount_counts (owner, cell, bucket, count)
select owner_key(user_id), coalesce(transaction_cell(type, status, network), 0), bucket - bucket % 100, sum(count)
from transaction_amount_counts
group by 1, 2, 3;
