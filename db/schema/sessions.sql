-- A session lives here and only here: deleting the row ends it at once on every instance.
create table sessions (
  id text primary key,
  user_id text not null references users on delete cascade,
  -- 'recovery': an address owner's signature and an e-mail code; such a session may only register a passkey
  method text not null check (method in ('otp', 'passkey', 'wallet_setup', 'google', 'test', 'recovery')),
  -- the passkey that signed in: its sessions end when it is no longer an owner
  passkey_id text references passkeys on delete set null,
  -- when a passkey last proved who uses it
  passkey_at timestamptz,
  -- the merchants that it has acted for: it ends with a membership
  acted_for text[] not null default '{}',
  -- what a user needs to recognise a session
  last_seen_at timestamptz not null default now(),
  user_agent text check (length(user_agent) <= 300),
  client_address text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- expires_at is moved by each use, but not beyond this
  absolute_end_at timestamptz not null
);
-- serves: the sessions of a user
create index sessions_user on sessions (user_id);
-- serves: ending the sessions of a passkey
create index sessions_passkey on sessions (passkey_id) where passkey_id is not null;
-- serves: housekeeping
create index sessions_expires on sessions (expires_at);
