-- Users, what identifies them to other providers and by e-mail, and the trail of what they did with their accounts.

-- An account: a merchant, or a person who acts for one.
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
-- an address has one account; serves: find a user by e-mail
create unique index users_email_key on users (email);

-- One-time codes. Only the newest of a user is valid. The code itself is never stored readable: code_hmac compares it, and the mail job
-- reads it once from sealed_code (AES-256-GCM, key derived from OTP_PEPPER).
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
-- a user has at most one live code; serves: find it
create unique index otps_live_key on otps (user_id) where superseded_at is null;
-- serves: codes sent in the last hour; housekeeping
create index otps_user_created on otps (user_id, created_at);
-- serves: housekeeping of codes that can no longer be used but still be read
create index otps_sealed on otps (expires_at) where sealed_code is not null;

-- Sign-in identities of other providers. The key is (issuer, subject), never the e-mail.
create table identities (
  issuer text not null,
  subject text not null,
  user_id text not null references users on delete cascade,
  -- the address that the provider named when the identity was linked or last signed in, shown to its owner alone; null: not known
  email text check (email = lower(email) and length(email) between 3 and 254),
  created_at timestamptz not null default now(),
  primary key (issuer, subject)
);
-- serves: the identities of a user
create index identities_user on identities (user_id);

-- Issuers of which an account has unlinked an identity: its address alone links none of theirs again.
create table unlinked_issuers (
  user_id text not null references users on delete cascade,
  issuer text not null,
  unlinked_at timestamptz not null default now(),
  primary key (user_id, issuer)
);

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

-- The trail of security events, readable by the user it concerns. Append-only: a row is never changed, and goes only with its user, or
-- when it is older than the time that housekeeping names for its own transaction.
create table security_events (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  user_id text references users on delete cascade,
  type text not null,
  -- the person or API key that did it; not a reference, because a row of the trail never changes
  actor_id text,
  client_address text,
  request_id text,
  details jsonb not null default '{}'
);
-- serves: a user's trail, newest first
create index security_events_user on security_events (user_id, id desc);
-- serves: retention
create index security_events_created on security_events using brin (created_at);

-- Housekeeping names its time in service.security_trail_from.
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
