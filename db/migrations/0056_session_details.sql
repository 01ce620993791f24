-- What a user needs to recognise a session, and when a passkey last proved who uses it.

alter table sessions
  add column passkey_at timestamptz,
  add column last_seen_at timestamptz not null default now(),
  add column user_agent text check (length(user_agent) <= 300),
  add column client_address text;

-- Sessions that a passkey began keep what it proved. Rows that the old code still writes have none: their users sign in again.
update sessions
set passkey_at = case when method in ('passkey', 'wallet_setup') then created_at end, last_seen_at = created_at;

alter table passkeys
  add column name text check (length(name) between 1 and 100);
