-- Lists by amount are answered by the indexes alone. An entry grows by at most 8 bytes, most by none.

-- serves: any choice of types, statuses and networks, newest first: one ordered scan a cell, merged; also with amounts
create index concurrently transactions_by_cell on transactions (owner, cell, detected_at desc, id desc) include (amount_units)
  where is_settled;
drop index concurrently if exists transactions_cell;

-- serves: amount bounds that few rows meet, also with types, statuses, networks and dates
create index concurrently transactions_by_amount on transactions (owner, amount_units, detected_at desc, id desc) include (cell)
  where is_settled;
drop index concurrently if exists transactions_user_amount;
