-- What the rows of a payment cost beside their indexes. A regular expression that counts to 64 takes longer than storing the row.
alter table documents
  drop constraint documents_tx_hash_check,
  drop constraint documents_block_hash_check,
  add constraint documents_tx_hash_check
    check (length(tx_hash) = 66 and tx_hash = '0x' || encode(decode(substr(tx_hash, 3), 'hex'), 'hex')),
  add constraint documents_block_hash_check
    check (length(block_hash) = 66 and block_hash = '0x' || encode(decode(substr(block_hash, 3), 'hex'), 'hex'));

-- Room for a second version of each link of a batch: becoming PENDING stays in the page (HOT) then.
alter table payment_links set (fillfactor = 50);

-- Most links have no order data: the event of such a link is stored as it came.
create or replace function add_order_data() returns trigger language plpgsql as $$
declare
  reference text;
  customer_email text;
  metadata jsonb;
  parent_id text;
begin
  select link.reference, link.customer_email, nullif(link.metadata, '{}'), link.parent_id
  into reference, customer_email, metadata, parent_id
  from payment_links link
  where link.id = case
      when new.type like 'payment_link.%' then new.subject_id
      when new.data ? 'linkId' then new.data ->> 'linkId'
      else (select link_id from transactions where id = new.subject_id)
    end;
  if num_nonnulls(reference, customer_email, metadata, parent_id) > 0 then
    new.data := new.data || jsonb_strip_nulls(jsonb_build_object(
      'reference', reference, 'customerEmail', customer_email, 'metadata', metadata, 'parentLinkId', parent_id
    ));
  end if;
  return new;
end $$;

-- Both versions of a row side by side. The plan is kept for the connection, whatever number of rows it was made for: without nested loops
-- it is good for any.
create or replace function count_changed_links() returns trigger language plpgsql set enable_nestloop = off as $$
begin
  insert into link_count_deltas (
    user_id, status, prior_status, count, amount_units, refunded_units, prior_amount_units, prior_refunded_units
  )
  select
    added.user_id, added.status, removed.status, count(*) filter (where added.parent_id is null),
    sum(coalesce(added.paid_units, added.amount_units)), sum(added.refunded_units),
    sum(coalesce(removed.paid_units, removed.amount_units)), sum(removed.refunded_units)
  from added
  join removed on removed.id = added.id
  where (added.status, coalesce(added.paid_units, added.amount_units), added.refunded_units)
    is distinct from (removed.status, coalesce(removed.paid_units, removed.amount_units), removed.refunded_units)
  group by 1, 2, 3;
  return null;
end $$;
