-- Relays that carried an operation before its present one and may still execute it, because their keys signed no replacement: until each is
-- final or lost, the operation does not fail.
alter table wallet_operations
  add column former_relay_ids bigint[];
