-- serves: the refunds whose transfer may be back, few or none
create index concurrently refunds_orphaned on refunds (network) where orphaned_transfer_id is not null;
