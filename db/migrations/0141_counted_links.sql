-- A link that is created counts in its merchant's counter at once: whoever creates one holds the lock of the merchant's wallet, so nobody
-- else waits for that. Before, a difference was inserted, entered into an index, folded and deleted. A row that is there is updated
-- without the lock that an insert with a conflict writes into the log.
create or replace function count_added_links() returns trigger language plpgsql as $$
begin
  with one as (
    select
      user_id, status, count(*) filter (where parent_id is null) as count,
      sum(coalesce(paid_units, amount_units)) as amount_units, sum(refunded_units) as refunded_units
    from added
    group by 1, 2
  ),
  counted as (
    update link_counts
    set
      count = link_counts.count + one.count,
      amount_units = link_counts.amount_units + one.amount_units,
      refunded_units = link_counts.refunded_units + one.refunded_units
    from one
    where link_counts.user_id = one.user_id and link_counts.status = one.status
    returning link_counts.user_id, link_counts.status
  )
  insert into link_counts (user_id, status, count, amount_units, refunded_units)
  select user_id, status, count, amount_units, refunded_units
  from one
  where not exists (
      select from counted
      where counted.user_id = one.user_id and counted.status = one.status
    )
  on conflict (user_id, status) do update
  set
    count = link_counts.count + excluded.count,
    amount_units = link_counts.amount_units + excluded.amount_units,
    refunded_units = link_counts.refunded_units + excluded.refunded_units;
  return null;
end $$;

-- a merchant's five counters stay in their page as they change (HOT)
alter table link_counts set (fillfactor = 50);

-- Kind, test network, year and number of a document in one number, in their order. For the index that follows.
create function document_place(kind text, is_test boolean, year int, number int) returns bigint
  language sql immutable parallel safe
  return (case kind when 'CREDIT_NOTE' then 2 else 0 end + is_test::int) * 100000000000000
    + year * 10000000000::bigint + number;
