-- Sign-in after a lost phone: an address owner's signature and an e-mail code open a session that may only register a passkey.

alter table challenges
  drop constraint challenges_purpose_check,
  add constraint challenges_purpose_check
    check (purpose in ('register', 'login', 'send', 'owner', 'recover', 'recover_proven'));

alter table sessions
  drop constraint sessions_method_check,
  add constraint sessions_method_check
    check (method in ('otp', 'passkey', 'wallet_setup', 'google', 'test', 'recovery')),
  -- the passkey that signed in: its sessions end when it is no longer an owner
  add column passkey_id text references passkeys on delete set null;
-- serves: ending the sessions of a passkey
create index sessions_passkey on sessions (passkey_id) where passkey_id is not null;
