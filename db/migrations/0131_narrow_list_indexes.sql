-- serves: a user's links of one stage, newest first. Without the id, which takes as much room as the other columns together: rows of one
-- microsecond are few, and are sorted by it as they are read.
create index concurrently payment_links_listed_by_time on payment_links (owner_key(user_id), stage, created_at desc)
  where parent_id is null;
drop index concurrently if exists payment_links_listed;

-- serves: what is PENDING of the list, newest first, and its counts, by the index alone
create index concurrently transactions_pending_by_time on transactions (owner, detected_at desc, id desc) include (cell, amount_units)
  where not is_settled;
drop index concurrently if exists transactions_pending;
