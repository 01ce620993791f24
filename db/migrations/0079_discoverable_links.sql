-- Links that their merchant shows to agents: they are in the public listing, and their 402 says how they are called.

alter table payment_links
  add column is_discoverable boolean not null default false,
  -- a use belongs to the payer it was opened for
  add constraint payment_links_discoverable_check check (not is_discoverable or parent_id is null);
-- serves: the public listing, newest first
create index payment_links_discoverable on payment_links (created_at desc, id desc) where is_discoverable and stage = 'OPEN';
