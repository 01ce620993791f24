-- Keys of a merchant's programs. Only the SHA-256 of a key is stored; prefix is what its owner recognises it by.
create table api_keys (
  id text primary key,
  user_id text not null references users on delete cascade,
  name text not null check (length(name) between 1 and 100),
  prefix text not null,
  key_hash bytea not null unique check (octet_length(key_hash) = 32),
  scopes text[] not null,
  -- the member who made it: revoked with the membership
  created_by text references users on delete set null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
-- serves: the keys of a user, newest first
create index api_keys_user on api_keys (user_id, created_at desc);
