-- Whose turn it is to monitor a network's transactions: further workers leave it to that one while it does. It is about cost alone; that
-- two never do it at once is the work lock's task. A crash of Postgres ends all turns.
create unlogged table monitor_turns (
  network text primary key check (network in ('base', 'base-sepolia')),
  holder text not null,
  until timestamptz not null
) with (fillfactor = 50);
