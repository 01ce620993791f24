-- Receipts that go to a customer by mail: one a link and transaction, stored in the commit that makes the link PAID.

create table receipt_mails (
  id text primary key default 'rcp_' || replace(gen_random_uuid()::text, '-', ''),
  link_id text not null references payment_links on delete cascade,
  user_id text not null references users on delete cascade,
  tx_hash text not null,
  log_index int not null,
  -- set before the mail server is given the message, and reset only when it refused: never two mails for one payment
  sent_at timestamptz,
  created_at timestamptz not null default now()
);
create unique index receipt_mails_payment_key on receipt_mails (link_id, tx_hash);
-- serves: how many a merchant has caused in the last day
create index receipt_mails_user on receipt_mails (user_id, created_at);
