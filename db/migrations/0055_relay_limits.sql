-- An operator's own limit for one merchant, and words for a refusal.

-- gas a network and day; null: RELAY_GAS_PER_MERCHANT_PER_DAY
alter table users add column relay_gas_per_day bigint check (relay_gas_per_day >= 0);
-- what a payer reads beside the reason: figures of a limit
alter table payments add column reason_text text;
