-- A merchant's books: export files, profiles and schedules of exports, monthly statements, and the exchange rates that value them.

-- A file that is made in the background.
create table exports (
  id text primary key,
  user_id text not null references users on delete cascade,
  -- which there are is the code's to say
  format text not null check (format ~ '^[a-z][a-z0-9_]{1,31}$'),
  request jsonb not null,
  status text not null default 'QUEUED' check (status in ('QUEUED', 'RUNNING', 'READY', 'FAILED')),
  attempts int not null default 0,
  rows_done int not null default 0,
  rows_total int,
  -- rows the filter chose when the file was rendered; more than rows_total when truncated
  rows_matched bigint,
  truncated boolean not null default false,
  byte_size bigint,
  error text,
  -- why no file could be made of what was asked for, in words for its owner
  refusal text check (length(refusal) <= 500),
  request_id text,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  ready_at timestamptz,
  expires_at timestamptz not null
);
-- serves: a user's exports, newest first
create index exports_user_created on exports (user_id, created_at desc, id desc);
-- serves: housekeeping
create index exports_expires on exports (expires_at);
-- serves: how many a user renders now, and which waits next
create index exports_unfinished on exports (user_id, created_at) where status in ('QUEUED', 'RUNNING');

-- The file in pieces, so that writing and serving it never hold more than one. Pieces belong to the attempt that wrote them, each in a
-- commit of its own: the event log is read up to the oldest transaction that writes, and one as long as the rendering of a file would
-- hold it up. A file is the pieces of the attempt that made it READY.
create table export_chunks (
  attempt int not null,
  position int not null,
  export_id text not null references exports on delete cascade,
  bytes bytea not null,
  primary key (export_id, attempt, position)
);

-- Exports that a merchant gave a name: the format, which columns in which order under which titles, the currency, and which movements.
create table export_profiles (
  id text primary key check (starts_with(id, 'epr_')),
  user_id text not null references users on delete cascade,
  name text not null check (length(name) between 1 and 100),
  definition jsonb not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- serves also: a merchant's profiles by name
  constraint export_profiles_name_key unique (user_id, name)
);

-- Exports that are made by themselves: a profile, every week or month, announced by mail or webhook.
create table export_schedules (
  id text primary key check (starts_with(id, 'exs_')),
  user_id text not null references users on delete cascade,
  profile_id text not null references export_profiles on delete cascade,
  frequency text not null check (frequency in ('weekly', 'monthly')),
  delivery text not null check (delivery in ('mail', 'webhook')),
  -- the person who made it: it ends with their membership
  created_by text not null references users on delete cascade,
  created_at timestamptz not null default now(),
  -- no further period is ordered until it is resumed
  paused_at timestamptz
);
-- serves: a merchant's schedules
create index export_schedules_user on export_schedules (user_id, created_at, id);
-- serves: a profile that is deleted
create index export_schedules_profile on export_schedules (profile_id);
-- serves: a person that is deleted, or whose membership ends
create index export_schedules_created_by on export_schedules (created_by);

-- Each period of a schedule once. Days are those of the profile's time zone, both included.
create table export_schedule_runs (
  schedule_id text not null references export_schedules on delete cascade,
  first_day date not null,
  last_day date not null,
  export_id text references exports on delete set null,
  announced_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (schedule_id, first_day),
  check (first_day <= last_day)
);
-- serves: which are still to be announced
create index export_schedule_runs_unannounced on export_schedule_runs (created_at) where announced_at is null;
-- serves: an export that is deleted
create index export_schedule_runs_export on export_schedule_runs (export_id) where export_id is not null;

-- What a merchant's books and documents say about the merchant, and how they are kept. A merchant without a row has the defaults.
create table merchant_books (
  user_id text primary key references users on delete cascade,
  -- printed on statements, receipts and credit notes
  legal_name text check (length(legal_name) between 1 and 200),
  postal_address text check (length(postal_address) between 1 and 500),
  tax_id text check (length(tax_id) between 1 and 50),
  -- of a document whose payer's language is not known
  document_language text not null default 'en'
    check (document_language in ('en', 'es', 'pt-BR', 'fr', 'de', 'tr', 'ar', 'hi', 'id', 'vi', 'zh-Hans')),
  -- the time zone in which days and months begin
  time_zone text not null default 'UTC' check (length(time_zone) between 1 and 64),
  monthly_statements boolean not null default false,
  -- months that ended before are not made
  monthly_since timestamptz,
  -- the currency of the books; null: amounts stay in USDC alone
  fiat_currency text check (fiat_currency ~ '^[A-Z]{3}$'),
  -- a name of exchange_rate_sources, or own: merchant_rates
  rate_source text not null default 'ecb' check (rate_source ~ '^[a-z][a-z0-9-]{0,31}$'),
  -- par: one USDC is one US dollar; source: what the source publishes for USDC
  usdc_rate text not null default 'par' check (usdc_rate in ('par', 'source')),
  -- numbers of the tax adviser, the client and the accounts; null: no DATEV files
  datev jsonb,
  updated_at timestamptz not null default now(),
  check (not monthly_statements or monthly_since is not null)
);
-- serves: whose months are to be closed
create index merchant_books_monthly on merchant_books (user_id) where monthly_statements;

-- A wallet's balance on the chain in the last block before a period's end, read once while nodes still have that state.
create table closing_balances (
  ends_at timestamptz not null,
  block_number bigint not null,
  block_time timestamptz not null,
  recorded_at timestamptz not null default now(),
  wallet_id text not null references wallets on delete cascade,
  block_hash text not null check (block_hash ~ '^0x[0-9a-f]{64}$'),
  balance_units numeric(78, 0) not null,
  primary key (wallet_id, ends_at),
  check (block_time < ends_at)
);

-- A wallet's statement of a month, as PDF and CSV.
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
-- serves both: an export that is deleted
create index monthly_statements_pdf on monthly_statements (pdf_export_id) where pdf_export_id is not null;
create index monthly_statements_csv on monthly_statements (csv_export_id) where csv_export_id is not null;

-- Units of a currency for one unit of the source's base. A published rate is never overwritten: revision 1 is what values a movement, and
-- every later number for that day is a correction, which counts only where corrections are asked for.
create table exchange_rates (
  fetched_at timestamptz not null default now(),
  day date not null,
  revision int not null check (revision >= 1),
  source text not null check (source ~ '^[a-z][a-z0-9-]{0,31}$'),
  base text not null check (base ~ '^[A-Z]{3}$'),
  currency text not null check (currency ~ '^[A-Z]{3,4}$'),
  -- times 10^10
  rate_e10 numeric(78, 0) not null check (rate_e10 > 0),
  primary key (source, currency, day, revision)
);

-- Where rates come from, and how the newest attempt to read them ended.
create table exchange_rate_sources (
  source text primary key check (source ~ '^[a-z][a-z0-9-]{0,31}$' and source not in ('own', 'par')),
  attempted_at timestamptz not null default now(),
  fetched_at timestamptz,
  newest_day date,
  error text check (length(error) <= 500)
);

-- Units of a currency for one USDC, as a merchant entered them.
create table merchant_rates (
  entered_at timestamptz not null default now(),
  day date not null,
  user_id text not null references users on delete cascade,
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  -- times 10^10
  rate_e10 numeric(78, 0) not null check (rate_e10 > 0),
  primary key (user_id, currency, day)
);
