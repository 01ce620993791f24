-- Without the id, which takes as much room as the other columns together. Rows of one microsecond are few: they are sorted by it as they are read.

-- serves: a user's links of one stage, newest first
create index concurrently payment_links_listed_by_time on payment_links (owner_key(user_id), stage, created_at desc)
  where parent_id is null;
drop index concurrently if exists payment_links_listed;

-- serves: what is PENDING of the list, newest first
create index concurrently transactions_pending_by_time on transactions (owner, detected_at desc) where not is_settled;
drop index concurrently if exists transactions_pending;
