-- What is kept by its transfer's place in the chain names the transfer's row while its block is not on the chain: it may come back at another
-- place.
alter table refunds
  add column orphaned_transfer_id bigint;
alter table assignments
  add column orphaned_transfer_id bigint;
