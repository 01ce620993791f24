-- Sign-ins at another provider that are under way: used once by `delete … returning`. The browser holds only the state.
create table oauth_flows (
  state_hash bytea primary key check (octet_length(state_hash) = 32),
  code_verifier text not null,
  nonce text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
-- serves: housekeeping
create index oauth_flows_expires on oauth_flows (expires_at);
-- serves: the identities of a user
create index identities_user on identities (user_id);
-- serves: housekeeping of codes that can no longer be used but still be read
create index otps_sealed on otps (expires_at) where sealed_code is not null;
