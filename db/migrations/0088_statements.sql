-- Statements of a wallet: what a merchant's documents say about him, balances of the chain recorded when a period closes, monthly statements.

create table merchant_books (
  user_id text primary key references users on delete cascade,
  -- printed on statements, receipts and credit notes
  legal_name text check (length(legal_name) between 1 and 200),
  postal_address text check (length(postal_address) between 1 and 500),
  tax_id text check (length(tax_id) between 1 and 50),
  -- where his days and months begin
  time_zone text not null default 'UTC' check (length(time_zone) between 1 and 64),
  monthly_statements boolean not null default false,
  -- months that ended before are not made
  monthly_since timestamptz,
  updated_at timestamptz not null default now(),
  check (not monthly_statements or monthly_since is not null)
);
-- serves: whose months are to be closed
create index merchant_books_monthly on merchant_books (user_id) where monthly_statements;

-- A wallet's balance on the chain in the last block before a period's end, read once while nodes still have that state.
create table closing_balances (
  wallet_id text not null references wallets on delete cascade,
  ends_at timestamptz not null,
  block_number bigint not null,
  block_hash text not null check (block_hash ~ '^0x[0-9a-f]{64}$'),
  block_time timestamptz not null,
  balance_units numeric(78, 0) not null,
  recorded_at timestamptz not null default now(),
  primary key (wallet_id, ends_at),
  check (block_time < ends_at)
);

create table monthly_statements (
  wallet_id text not null references wallets on delete cascade,
  user_id text not null references users on delete cascade,
  month text not null check (month ~ '^\d{4}-(0[1-9]|1[0-2])$'),
  pdf_export_id text references exports on delete set null,
  csv_export_id text references exports on delete set null,
  announced_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (wallet_id, month)
);
-- serves: a user's statements, newest first
create index monthly_statements_user on monthly_statements (user_id, month desc, wallet_id);
-- serves: which are still to be announced by mail
create index monthly_statements_unannounced on monthly_statements (created_at) where announced_at is null;
-- serves: an export that is deleted
create index monthly_statements_pdf on monthly_statements (pdf_export_id) where pdf_export_id is not null;
create index monthly_statements_csv on monthly_statements (csv_export_id) where csv_export_id is not null;
