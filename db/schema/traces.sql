-- The trace of a payment or send while it is in flight, written only while traces are exported. Unlogged: a crash of Postgres ends them.
create unlogged table traces (
  created_at timestamptz not null default now(),
  subject_id text primary key,
  traceparent text not null
);
