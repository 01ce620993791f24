-- Refunds that an operator or a program asked for: rows without an operation until an owner of the wallet prepares them.

alter table refunds
  -- who asked: a user or an API key; null for one that its owner prepared at once
  add column requested_by text check (requested_by ~ '^(user|key)_'),
  add column request_key text,
  add column request_hash bytea,
  -- declined or withdrawn before anything was signed
  add column cancelled_at timestamptz,
  add constraint refunds_request_hash_check check ((request_key is null) = (request_hash is null));
-- one request an Idempotency-Key; a cancelled one frees its key
create unique index refunds_request_key on refunds (user_id, request_key)
  where request_key is not null and cancelled_at is null;
-- serves: a user's refunds, newest first
create index refunds_user on refunds (user_id, id desc);
