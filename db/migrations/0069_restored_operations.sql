-- Operations whose row was lost with a restored backup and made again from the chain. Their id has the random part it had, and another time.
alter table wallet_operations add column restored_at timestamptz;
-- serves: finding one by the id it had
create index wallet_operations_restored on wallet_operations (right(id, 32)) where restored_at is not null;
