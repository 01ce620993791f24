-- The ledger's block at which the account refused the operation's signature first, while it has refused it ever since.
alter table wallet_operations
  add column signature_refused_block bigint;
