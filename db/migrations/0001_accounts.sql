-- Users, the ways they prove who they are, and what they did with them.

create table users (
  id text primary key check (starts_with(id, 'user_')),
  email text not null check (email = lower(email) and length(email) between 3 and 254),
  display_name text check (length(display_name) between 1 and 100),
  status text not null default 'REGISTERED'
    check (status in ('REGISTERED', 'WALLET_SETUP_PENDING', 'ACTIVE')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
-- serves: find a user by e-mail; one account an address
create unique index users_email_key on users (email);

-- One-time codes. Only the newest of a user is valid. The code itself is never stored readable:
-- code_hmac compares it, sealed_code (AES-256-GCM, key derived from OTP_PEPPER) lets the mail job read it once.
create table otps (
  id text primary key,
  user_id text not null references users on delete cascade,
  code_hmac bytea not null check (octet_length(code_hmac) = 32),
  sealed_code bytea,
  attempts int not null default 0 check (attempts between 0 and 5),
  expires_at timestamptz not null,
  sent_at timestamptz,
  consumed_at timestamptz,
  superseded_at timestamptz,
  request_id text,
  created_at timestamptz not null default now()
);
-- serves: the live code of a user; at most one
create unique index otps_live_key on otps (user_id) where superseded_at is null;
-- serves: codes sent in the last hour; housekeeping
create index otps_user_created on otps (user_id, created_at);

create table passkeys (
  id text primary key,
  user_id text not null references users on delete cascade,
  cose_key bytea not null,
  public_key_x bytea not null check (octet_length(public_key_x) = 32),
  public_key_y bytea not null check (octet_length(public_key_y) = 32),
  counter bigint not null default 0,
  device_type text not null check (device_type in ('singleDevice', 'multiDevice')),
  backed_up boolean not null,
  transports text[] not null default '{}',
  rp_id text not null,
  aaguid text,
  created_at timestamptz not null default now(),
  last_used_at timestamptz
);
-- serves: allowCredentials of a user
create index passkeys_user on passkeys (user_id);

-- WebAuthn challenges: single use by `delete … returning`.
create table challenges (
  id text primary key check (starts_with(id, 'ch_')),
  user_id text not null references users on delete cascade,
  purpose text not null check (purpose in ('register', 'login', 'send')),
  network text,
  challenge bytea not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
-- serves: housekeeping
create index challenges_expires on challenges (expires_at);

-- A session lives here and only here: deleting the row ends it at once on every instance.
create table sessions (
  id text primary key,
  user_id text not null references users on delete cascade,
  method text not null check (method in ('otp', 'passkey', 'wallet_setup', 'google', 'test')),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  absolute_end_at timestamptz not null
);
create index sessions_user on sessions (user_id);
-- serves: housekeeping
create index sessions_expires on sessions (expires_at);

-- Sign-in identities of other providers: the key is (issuer, subject), never the e-mail.
create table identities (
  issuer text not null,
  subject text not null,
  user_id text not null references users on delete cascade,
  created_at timestamptz not null default now(),
  primary key (issuer, subject)
);

create table api_keys (
  id text primary key,
  user_id text not null references users on delete cascade,
  name text not null check (length(name) between 1 and 100),
  prefix text not null,
  key_hash bytea not null unique check (octet_length(key_hash) = 32),
  scopes text[] not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index api_keys_user on api_keys (user_id, created_at desc);

-- Append-only trail of security events, readable by the user it concerns.
create table security_events (
  id bigint generated always as identity primary key,
  user_id text references users on delete cascade,
  type text not null,
  client_address text,
  request_id text,
  details jsonb not null default '{}',
  created_at timestamptz not null default now()
);
-- serves: a user's trail, newest first
create index security_events_user on security_events (user_id, id desc);
