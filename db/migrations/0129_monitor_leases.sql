-- The lease to monitor a network's transactions, so that several workers cost as much as one. It saves work alone: that two never do it at
-- once is the task of the work lock (db/postgres/work-lock.ts). A crash of Postgres ends all leases.
create unlogged table monitor_leases (
  network text primary key check (network in ('base', 'base-sepolia')),
  holder text not null,
  until timestamptz not null
) with (fillfactor = 50);
