-- A third comparison: accounts' nonces with the operations that are recorded.
alter table reconciliations
  drop constraint reconciliations_kind_check,
  add constraint reconciliations_kind_check check (kind in ('LOGS', 'BALANCES', 'NONCES'));
