-- The address that the provider named when the account was linked or last signed in; null: linked before.
-- Shown to its owner alone, and never a key. Not validated: existing rows have none.
alter table identities add column email text;
alter table identities add constraint identities_email_check
  check (email = lower(email) and length(email) between 3 and 254) not valid;
