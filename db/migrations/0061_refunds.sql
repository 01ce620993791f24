-- Money of a link that goes back. The operation that moves it has the same id; a refund without one was only asked for.

create table refunds (
  id text primary key check (id ~ '^rfd_[0-9a-f]{44}$'),
  user_id text not null references users,
  link_id text not null references payment_links,
  network text not null check (network in ('base', 'base-sepolia')),
  -- the transfer whose money it is, by its place in the chain: a rebuild makes rows of transfers anew
  paid_tx_hash text not null,
  paid_log_index int not null,
  to_address text not null check (to_address ~ '^0x[0-9a-f]{40}$'),
  to_source text not null check (to_source in ('x402_payer', 'transfer_sender', 'given')),
  amount_units bigint not null check (amount_units > 0),
  reason text check (length(reason) between 1 and 500),
  created_at timestamptz not null default now()
);
-- serves: what is left of a link's money, and its refunds, newest first
create index refunds_link on refunds (link_id, id desc);
