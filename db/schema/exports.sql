-- Export files and the pieces they are served in.

create table exports (
  id text primary key,
  user_id text not null references users on delete cascade,
  format text not null check (format in ('csv', 'json', 'text', 'pdf')),
  request jsonb not null,
  status text not null default 'QUEUED' check (status in ('QUEUED', 'RUNNING', 'READY', 'FAILED')),
  attempts int not null default 0,
  rows_done int not null default 0,
  rows_total int,
  -- rows the filter chose when the file was rendered; more than rows_total when truncated
  rows_matched bigint,
  truncated boolean not null default false,
  byte_size bigint,
  error text,
  request_id text,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  ready_at timestamptz,
  expires_at timestamptz not null
);
-- serves: a user's exports, newest first
create index exports_user_created on exports (user_id, created_at desc, id desc);
-- serves: housekeeping
create index exports_expires on exports (expires_at);
-- serves: how many a user renders now, and which waits next
create index exports_unfinished on exports (user_id, created_at) where status in ('QUEUED', 'RUNNING');

-- The file in pieces, so that writing and serving it never hold more than one. Pieces belong to the attempt that wrote them, each in a
-- commit of its own: the event log is read up to the oldest transaction that writes, and one as long as the rendering of a file would
-- hold it up. A file is the pieces of the attempt that made it READY.
create table export_chunks (
  export_id text not null references exports on delete cascade,
  attempt int not null,
  position int not null,
  bytes bytea not null,
  primary key (export_id, attempt, position)
);
