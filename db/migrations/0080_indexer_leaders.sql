-- Signs of life of each network's leader. A process that is stopped, or whose machine is, keeps its connections and with them its
-- advisory lock: who waits to lead sees here that it is frozen.

create table indexer_leaders (
  network text primary key check (network in ('base', 'base-sepolia')),
  -- the server process of the connection that holds the lock
  backend_pid int not null,
  alive_at timestamptz not null
);
