-- Links that many payers pay, and links whose amount the payer chooses. Such a link is never paid itself: each payer gets a use of it, a
-- link of its own with one amount, one payment, its own tag and receipt, so everything that keeps a link from being paid twice holds per use.

alter table payment_links
  add column is_reusable boolean not null default false,
  -- uses at most; null: no end
  add column max_payments int default 1 check (max_payments >= 1),
  -- the payer chooses an amount between these; amount_units is then the least
  add column min_units bigint check (min_units between 1 and 1000000000000),
  add column max_units bigint check (max_units between 1 and 1000000000000),
  -- of a use: its reusable link
  add column parent_id text references payment_links on delete cascade,
  -- paid by nonce, tag, proof, unique amount or the merchant's assignment only, never by its plain amount: anybody may open uses, and none of
  -- them may make another link's transfer ambiguous
  add column is_addressed boolean not null generated always as (is_reusable or parent_id is not null) stored,
  add constraint payment_links_open_amount_check
    check ((min_units is null) = (max_units is null) and (min_units is null or is_reusable and min_units <= max_units)),
  add constraint payment_links_reusable_check
    check (is_reusable or max_payments = 1),
  add constraint payment_links_use_check check (parent_id is null or not is_reusable),
  -- nothing can be attributed to it
  add constraint payment_links_template_check
    check (not is_reusable or tag is null and pay_amount_units is null and status in ('ACTIVE', 'EXPIRED', 'CANCELLED'));
-- serves: the uses of a link, newest first, and how many of them count
create index payment_links_uses on payment_links (parent_id, created_at desc, id desc) where parent_id is not null;
-- serves: a merchant's list, newest first, keyset (created_at, id): one ordered scan a stage, merged; it has no uses in it
drop index payment_links_user_stage_created;
create index payment_links_listed on payment_links (owner_key(user_id), stage, created_at desc, id desc)
  where parent_id is null;

-- A use is no link of the merchant's list, so it is not counted; its money is.
create or replace function count_added_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
  select
    user_id, status, count(*) filter (where parent_id is null), sum(coalesce(paid_units, amount_units)), sum(refunded_units)
  from added
  group by 1, 2;
  return null;
end $$;

create or replace function count_removed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, prior_status, count, prior_amount_units, prior_refunded_units)
  select
    user_id, status, count(*) filter (where parent_id is null), sum(coalesce(paid_units, amount_units)), sum(refunded_units)
  from removed
  group by 1, 2;
  return null;
end $$;

-- Grouped, not joined: a plan made for a few rows is kept for statements that change all.
create or replace function count_changed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (
    user_id, status, prior_status, count, amount_units, refunded_units, prior_amount_units, prior_refunded_units
  )
  select
    user_id, status, prior_status, count(*) filter (where is_listed), sum(units), sum(refunded), sum(prior_units),
    sum(prior_refunded)
  from (
    select
      user_id, bool_and(parent_id is null) as is_listed,
      max(status) filter (where is_new) as status, max(status) filter (where not is_new) as prior_status,
      sum(units) filter (where is_new) as units, sum(units) filter (where not is_new) as prior_units,
      sum(refunded_units) filter (where is_new) as refunded, sum(refunded_units) filter (where not is_new) as prior_refunded
    from (
      select id, user_id, parent_id, status, coalesce(paid_units, amount_units) as units, refunded_units, true as is_new
      from added
      union all
      select id, user_id, parent_id, status, coalesce(paid_units, amount_units), refunded_units, false
      from removed
    ) both_versions
    group by id, user_id
  ) moved
  where (status, units, refunded) is distinct from (prior_status, prior_units, prior_refunded)
  group by 1, 2, 3;
  return null;
end $$;

create or replace function add_order_data() returns trigger language plpgsql as $$
declare
  order_data jsonb;
begin
  select jsonb_strip_nulls(jsonb_build_object(
      'reference', link.reference, 'customerEmail', link.customer_email, 'metadata', nullif(link.metadata, '{}'),
      'parentLinkId', link.parent_id
    ))
  into order_data
  from payment_links link
  where link.id = case
      when new.type like 'payment_link.%' then new.subject_id
      when new.data ? 'linkId' then new.data ->> 'linkId'
      else (select link_id from transactions where id = new.subject_id)
    end;
  if order_data <> '{}' then
    new.data := new.data || order_data;
  end if;
  return new;
end $$;
