-- What the API keeps between requests: answers of Idempotency-Keys and the counters of limits.

-- Answers kept for a client's Idempotency-Key. json, not jsonb: an answer is repeated with its fields in the order they had.
create table idempotency_keys (
  scope text not null,
  key text not null check (length(key) between 1 and 255),
  request_hash bytea not null,
  -- null only within the transaction that answers the request
  status int,
  body json,
  created_at timestamptz not null default now(),
  primary key (scope, key)
);
-- serves: housekeeping
create index idempotency_keys_created on idempotency_keys (created_at);

-- A counter's window begins with its first request, so that a limit never doubles at a window's edge. Unlogged: fast, survives restarts
-- of our processes, reset by a Postgres crash. One row a key, updated in place: half of each page is free for that (HOT).
create unlogged table rate_counters (
  key text primary key,
  count int not null,
  ends_at timestamptz not null
) with (fillfactor = 50);
-- serves: housekeeping
create index rate_counters_ends on rate_counters (ends_at);
