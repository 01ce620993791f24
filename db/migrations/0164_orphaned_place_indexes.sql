-- serve both: what belongs to transfers that may be back, little or nothing
create index concurrently refunds_orphaned on refunds (network) where orphaned_transfer_id is not null;
create index concurrently assignments_orphaned on assignments (network) where orphaned_transfer_id is not null;
