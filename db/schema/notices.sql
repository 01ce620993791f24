-- Mails that tell a user what happened to a wallet or a sign-in, each stored in the transaction of what it reports.
create table notices (
  id bigint generated always as identity primary key,
  user_id text not null references users on delete cascade,
  kind text not null,
  -- what it is about: reported once
  key text not null,
  details jsonb not null default '{}',
  sent_at timestamptz,
  created_at timestamptz not null default now(),
  unique (user_id, key)
);
-- serves: retention
create index notices_created on notices using brin (created_at);
