-- Lists by amount, and counts of what is PENDING, are answered by the indexes alone. Built beside the old ones: lists are read meanwhile, and
-- payments wait for some seconds a million rows. An entry grows by at most 8 bytes, most by none.

-- serves: any choice of types, statuses and networks, newest first: one ordered scan a cell, merged; also with amounts
create index transactions_cell_new on transactions (owner, cell, detected_at desc, id desc) include (amount_units)
  where is_settled;
-- serves: amount bounds that few rows meet, also with types, statuses, networks and dates
create index transactions_user_amount_new on transactions (owner, amount_units, detected_at desc, id desc) include (cell)
  where is_settled;
-- serves: the list of what is PENDING, and its counts
create index transactions_pending_new on transactions (owner, detected_at desc, id desc) include (cell, amount_units)
  where not is_settled;

drop index transactions_cell;
drop index transactions_user_amount;
drop index transactions_pending;
alter index transactions_cell_new rename to transactions_cell;
alter index transactions_user_amount_new rename to transactions_user_amount;
alter index transactions_pending_new rename to transactions_pending;
