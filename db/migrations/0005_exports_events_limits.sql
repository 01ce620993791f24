-- Export files, the event log, and shared counters.

create table exports (
  id text primary key,
  user_id text not null references users on delete cascade,
  format text not null check (format in ('csv', 'json', 'text', 'pdf')),
  request jsonb not null,
  status text not null default 'QUEUED' check (status in ('QUEUED', 'RUNNING', 'READY', 'FAILED')),
  rows_done int not null default 0,
  rows_total int,
  truncated boolean not null default false,
  byte_size bigint,
  error text,
  request_id text,
  created_at timestamptz not null default now(),
  ready_at timestamptz,
  expires_at timestamptz not null default now() + interval '7 days'
);
-- serves: a user's exports, newest first
create index exports_user_created on exports (user_id, created_at desc, id desc);
-- serves: housekeeping
create index exports_expires on exports (expires_at);

-- The file in pieces, so that writing and serving it never hold more than one.
create table export_chunks (
  export_id text not null references exports on delete cascade,
  position int not null,
  bytes bytea not null,
  primary key (export_id, position)
);

-- Append-only; written in the transaction of the change it tells of.
-- Ids are handed out before commit, so readers stop at the oldest transaction still running (written_by).
create table events (
  id bigint generated always as identity primary key,
  user_id text not null references users on delete cascade,
  type text not null,
  subject_id text not null,
  data jsonb not null,
  written_by xid8 not null default pg_current_xact_id(),
  created_at timestamptz not null default now()
);
-- serves: a user's events after a cursor
create index events_user on events (user_id, written_by, id);

-- Fixed-window counters, shared by all instances. Unlogged: fast, survives restarts of our processes, reset by a Postgres crash.
create unlogged table rate_limits (
  key text not null,
  window_start timestamptz not null,
  count int not null,
  primary key (key, window_start)
);
