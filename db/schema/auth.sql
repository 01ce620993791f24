-- Passkeys, and the challenges that they sign.

-- A passkey of a user (WebAuthn credential), which signs in and owns wallets.
create table passkeys (
  id text primary key,
  user_id text not null references users on delete cascade,
  name text check (length(name) between 1 and 100),
  cose_key bytea not null,
  public_key_x bytea not null check (octet_length(public_key_x) = 32),
  public_key_y bytea not null check (octet_length(public_key_y) = 32),
  -- of signatures, as the authenticator last reported it
  counter bigint not null default 0,
  device_type text not null check (device_type in ('singleDevice', 'multiDevice')),
  backed_up boolean not null,
  transports text[] not null default '{}',
  rp_id text not null,
  -- the authenticator's model
  aaguid text,
  created_at timestamptz not null default now(),
  last_used_at timestamptz
);
-- serves: allowCredentials of a user
create index passkeys_user on passkeys (user_id);

-- WebAuthn challenges: single use by `delete … returning`.
create table challenges (
  id text primary key check (starts_with(id, 'ch_')),
  -- null: a sign-in without an address, which names no user before the passkey answers
  user_id text references users on delete cascade,
  purpose text not null check (purpose in ('register', 'login', 'send', 'owner', 'recover', 'recover_proven')),
  network text,
  challenge bytea not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  constraint challenges_user_check check (user_id is not null or purpose = 'login')
);
-- serves: housekeeping
create index challenges_expires on challenges (expires_at);
