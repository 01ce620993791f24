-- The row of the refunded transfer while its block is not on the chain: it may come back at another place (paid_tx_hash, paid_log_index).
alter table refunds
  add column orphaned_transfer_id bigint;
