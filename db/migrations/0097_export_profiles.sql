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
