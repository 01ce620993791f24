-- Issuers of which an account has unlinked an identity: its address alone links none of theirs again.
create table unlinked_issuers (
  user_id text not null references users on delete cascade,
  issuer text not null,
  unlinked_at timestamptz not null default now(),
  primary key (user_id, issuer)
);
