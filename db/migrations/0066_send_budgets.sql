-- What sends and refunds cost the relayers, beside payments: SENDS (gas, subject: the network), all sends together, and SENDER (gas,
-- subject: the user who signed), reverted transactions included.

alter table relay_budgets
  drop constraint relay_budgets_scope_check,
  add constraint relay_budgets_scope_check check (scope in ('FEES', 'MERCHANT', 'REVERTED', 'SENDS', 'SENDER'));

-- serves: failed sends of the last hour, of a user and of all
create index wallet_operations_failed on wallet_operations (user_id, queued_at) where state = 'FAILED';
