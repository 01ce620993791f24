-- One worker at a time drains a network's payments, so that further workers do not split the batches that make a payment cheap. A
-- crash of Postgres ends all leases.
create unlogged table drain_leases (
  network text primary key check (network in ('base', 'base-sepolia')),
  holder text not null,
  until timestamptz not null
) with (fillfactor = 50);
