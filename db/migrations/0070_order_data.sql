-- What a merchant notes with a link: his own number of the order, pairs of text, the customer's address, and where the payer goes back to.

alter table payment_links
  add column reference text check (length(reference) between 1 and 100),
  add column metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  add column customer_email text check (length(customer_email) between 3 and 254),
  add column success_url text check (length(success_url) <= 2000),
  add column cancel_url text check (length(cancel_url) <= 2000),
  -- the merchant asked that no other link of his has this reference
  add column unique_reference boolean not null default false,
  add constraint payment_links_unique_reference_check check (not unique_reference or reference is not null);
-- serves: a merchant's links of one reference, newest first
create index payment_links_reference on payment_links (user_id, reference, created_at desc, id desc)
  where reference is not null;
create unique index payment_links_unique_reference_key on payment_links (user_id, reference) where unique_reference;

-- How a merchant's pages look and work. A merchant without a row has the defaults.
create table merchant_pages (
  user_id text primary key references users on delete cascade,
  -- signs the query that a payer returns to the shop with; AES-256-GCM
  sealed_return_secret bytea,
  updated_at timestamptz not null default now()
);

-- A history row carries its link's reference, which a search finds. A link's reference never changes.
alter table transactions add column reference text;
-- serves: search for a part of a reference
create index transactions_reference on transactions using gin (reference gin_trgm_ops)
  where is_settled and reference is not null;

create function note_reference() returns trigger language plpgsql as $$
begin
  new.reference := (select reference from payment_links where id = new.link_id);
  return new;
end $$;
create trigger transactions_note_added_reference before insert on transactions
  for each row when (new.link_id is not null)
  execute function note_reference();
create trigger transactions_note_changed_reference before update of link_id on transactions
  for each row when (new.link_id is distinct from old.link_id)
  execute function note_reference();

-- Every event about a link or its transaction carries the link's order data, whichever statement writes it.
create function add_order_data() returns trigger language plpgsql as $$
declare
  order_data jsonb;
begin
  select jsonb_strip_nulls(jsonb_build_object(
      'reference', link.reference, 'customerEmail', link.customer_email, 'metadata', nullif(link.metadata, '{}')
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
create trigger events_add_order_data before insert on events
  for each row when (new.type like 'payment_link.%' or new.type like 'transaction.%')
  execute function add_order_data();
