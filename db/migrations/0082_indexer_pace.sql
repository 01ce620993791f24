-- The indexer follows a network at the pace of what waits there: an open link, and a link whose page somebody looks at.

-- serves: is a link of this network open
create index payment_links_open on payment_links (network) where stage = 'OPEN';

create table link_watches (
  network text primary key check (network in ('base', 'base-sepolia')),
  watched_until timestamptz not null
);
