-- People who act for a merchant in a role, and the invitations that make them members.

create table members (
  merchant_id text not null references users on delete cascade,
  user_id text not null references users on delete cascade,
  -- 'owner' counts once a passkey of the member is an owner of the merchant's wallet on the chain
  role text not null check (role in ('owner', 'operator', 'accountant', 'viewer')),
  invited_by text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (merchant_id, user_id),
  constraint members_other_check check (merchant_id <> user_id)
);
-- serves: the merchants of a user
create index members_user on members (user_id);

-- Bound to an address: whoever has an account with it accepts, once.
create table member_invitations (
  id text primary key check (starts_with(id, 'inv_')),
  merchant_id text not null references users on delete cascade,
  email text not null check (email = lower(email) and length(email) between 3 and 254),
  role text not null check (role in ('owner', 'operator', 'accountant', 'viewer')),
  invited_by text not null,
  sent_at timestamptz,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- an invitation ends once
  outcome text check (outcome in ('ACCEPTED', 'DECLINED', 'REVOKED')),
  ended_at timestamptz,
  constraint member_invitations_end_check check ((outcome is null) = (ended_at is null))
);
-- an address has one open invitation of a merchant; serves: a merchant's open invitations
create unique index member_invitations_open_key on member_invitations (merchant_id, email) where outcome is null;
-- serves: the open invitations of an address
create index member_invitations_email on member_invitations (email) where outcome is null;
