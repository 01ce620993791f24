-- A sign-in without an address names no user before the passkey answers.
alter table challenges
  alter column user_id drop not null,
  add constraint challenges_user_check check (user_id is not null or purpose = 'login');
