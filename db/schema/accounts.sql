-- Users, the ways they prove who they are, what they did with them, and their smart-account wallets.

-- What wide indexes hold of a user's id, 16 bytes instead of 42: the uuid behind its prefix, one to one.
create function owner_key(user_id text) returns uuid
  language sql immutable parallel safe
  return substr(user_id, 6)::uuid;

-- The last 8 bytes of an address, for indexes: 8 bytes an entry instead of 43. Queries compare the address too.
create function address_key(address text) returns bigint
  language sql immutable parallel safe
  return ('x' || right(address, 16))::bit(64)::bigint;

create table users (
  id text primary key check (id = 'user_' || owner_key(id)::text),
  email text not null check (email = lower(email) and length(email) between 3 and 254),
  display_name text check (length(display_name) between 1 and 100),
  status text not null default 'REGISTERED'
    check (status in ('REGISTERED', 'WALLET_SETUP_PENDING', 'ACTIVE')),
  -- 'early': a claim made before the block decides between links of one price; 'proven': only signed claims do
  claim_policy text not null default 'early' check (claim_policy in ('early', 'proven')),
  -- whether a transfer of a link's exact amount pays it without further evidence
  match_by_amount boolean not null default true,
  -- gas a network and day; null: RELAY_GAS_PER_MERCHANT_PER_DAY
  relay_gas_per_day bigint check (relay_gas_per_day >= 0),
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
-- serves: housekeeping of codes that can no longer be used but still be read
create index otps_sealed on otps (expires_at) where sealed_code is not null;

create table passkeys (
  id text primary key,
  user_id text not null references users on delete cascade,
  name text check (length(name) between 1 and 100),
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
  -- when a passkey last proved who uses it
  passkey_at timestamptz,
  -- what a user needs to recognise a session
  last_seen_at timestamptz not null default now(),
  user_agent text check (length(user_agent) <= 300),
  client_address text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  absolute_end_at timestamptz not null
);
-- serves: the sessions of a user
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
-- serves: the identities of a user
create index identities_user on identities (user_id);

-- Sign-ins at another provider that are in progress: used once by `delete … returning`. The browser holds only the state.
create table oauth_flows (
  state_hash bytea primary key check (octet_length(state_hash) = 32),
  code_verifier text not null,
  nonce text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
-- serves: housekeeping
create index oauth_flows_expires on oauth_flows (expires_at);

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
-- serves: the keys of a user, newest first
create index api_keys_user on api_keys (user_id, created_at desc);

-- The trail of security events, readable by the user it concerns. Append-only: a row is never changed, and goes only with its user, or
-- when it is older than the time that housekeeping names for its own transaction.
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
-- serves: retention
create index security_events_created on security_events using brin (created_at);

create function refuse_trail_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and not exists (select from users where id = old.user_id) then
    return old;
  end if;
  if tg_op = 'DELETE' and old.created_at < nullif(current_setting('service.security_trail_from', true), '')::timestamptz then
    return old;
  end if;
  raise exception 'security_events is append-only';
end
$$;
create trigger security_events_append_only
  before update or delete on security_events
  for each row execute function refuse_trail_change();

create table wallets (
  id text primary key,
  user_id text not null references users on delete cascade,
  network text not null check (network in ('base', 'base-sepolia')),
  address text not null check (address ~ '^0x[0-9a-f]*$' and length(address) = 42),
  passkey_id text not null references passkeys,
  -- what the address was computed from: never recomputed from today's configuration
  factory text not null check (factory ~ '^0x[0-9a-f]*$' and length(factory) = 42),
  owners text[] not null,
  salt_nonce bigint not null default 0,
  deployed_at timestamptz,
  -- first block the indexer follows for this wallet; null until it joined at a block's edge
  indexed_from bigint,
  -- null until the blocks before indexed_from were read
  backfilled_at timestamptz,
  -- balance before the first block that was read for this wallet; null until known
  opening_units numeric(78, 0),
  -- when its balance was last compared with the ledger
  reconciled_at timestamptz,
  -- balance on the chain minus what the ledger says, when last compared: kept until a later comparison clears it
  difference_units numeric(78, 0) not null default 0,
  created_at timestamptz not null default now()
);
-- one wallet a user and network
create unique index wallets_user_network_key on wallets (user_id, network);
-- serves: which user does a transfer concern
create unique index wallets_network_address_key on wallets (network, address);
-- A million wallets may wait at once (a first start on old data): each queue is read from its front.
-- serves: wallets that have not joined yet
create index wallets_unjoined on wallets (network) where indexed_from is null;
-- serves: wallets whose blocks before they joined are to be read, oldest first
create index wallets_unread on wallets (network, created_at) where backfilled_at is null;
-- serves: the wallets whose turn it is to be reconciled
create index wallets_reconciled on wallets (network, reconciled_at nulls first) where backfilled_at is not null;
-- serves: how many differ
create index wallets_differing on wallets (network) where difference_units <> 0;
