-- Owners of passkey wallets: adding and removing them are operations like sends.

-- What one signature changes. For every network of the user it has an operation, each with its own state.
create table owner_changes (
  id text primary key check (id ~ '^own_[0-9a-f]{44}$'),
  user_id text not null references users,
  action text not null check (action in ('ADD', 'REMOVE')),
  -- as the account stores it: 64 bytes of a passkey's key, or an address in 32 bytes
  owner text not null check (owner ~ '^0x([0-9a-f]{64}){1,2}$'),
  -- of this service's rows, if it is there
  passkey_id text references passkeys,
  -- of an address; a passkey has its own
  name text check (length(name) between 1 and 100),
  created_at timestamptz not null default now()
);
-- serves: a user's changes, newest first
create index owner_changes_user on owner_changes (user_id, id desc);

alter table wallet_operations
  add column owner_change_id text references owner_changes,
  -- signed without the chain's id, under a nonce key of its own: the same signature is valid on every network
  add column is_any_chain boolean not null default false,
  add constraint wallet_operations_owners_check check ((kind = 'OWNERS') = (owner_change_id is not null));
-- serves: the operations of a change
create index wallet_operations_owner_change on wallet_operations (owner_change_id) where owner_change_id is not null;

-- Operations for every network have their own nonces and wait, where the account is not deployed, for its first send: they hold no
-- other operation up.
drop index wallet_operations_live_key;
create unique index wallet_operations_live_key on wallet_operations (wallet_id)
  where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED') and not is_extra and not is_any_chain;
-- one live operation a nonce
create unique index wallet_operations_any_chain_key on wallet_operations (wallet_id, account_nonce)
  where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED') and not is_extra and is_any_chain;

alter table challenges
  drop constraint challenges_purpose_check,
  add constraint challenges_purpose_check check (purpose in ('register', 'login', 'send', 'owner'));
