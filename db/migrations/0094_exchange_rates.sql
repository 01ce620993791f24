-- Exchange rates: what a source published for each day, a merchant's own rates, and which of them value his books.

-- Units of a currency for one unit of the source's base. A published rate is never overwritten: revision 1 is what values a movement, and
-- every later number for that day is a correction, which counts only where corrections are asked for.
create table exchange_rates (
  source text not null check (source ~ '^[a-z][a-z0-9-]{0,31}$'),
  base text not null check (base ~ '^[A-Z]{3}$'),
  currency text not null check (currency ~ '^[A-Z]{3,4}$'),
  day date not null,
  revision int not null check (revision >= 1),
  -- times 10^10
  rate_e10 numeric(78, 0) not null check (rate_e10 > 0),
  fetched_at timestamptz not null default now(),
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
  user_id text not null references users on delete cascade,
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  day date not null,
  rate_e10 numeric(78, 0) not null check (rate_e10 > 0),
  entered_at timestamptz not null default now(),
  primary key (user_id, currency, day)
);

alter table merchant_books
  -- the currency of his books; null: amounts stay in USDC alone
  add column fiat_currency text check (fiat_currency ~ '^[A-Z]{3}$'),
  -- a name of exchange_rate_sources, or own: merchant_rates
  add column rate_source text not null default 'ecb' check (rate_source ~ '^[a-z][a-z0-9-]{0,31}$'),
  -- par: one USDC is one US dollar; source: what the source publishes for USDC
  add column usdc_rate text not null default 'par' check (usdc_rate in ('par', 'source'));

-- why no file could be made of what was asked for, in words for its owner
alter table exports add column refusal text check (length(refusal) <= 500);
