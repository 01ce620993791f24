-- An index entry ends in what orders a list: rows of one second, one transaction or one merchant's few PENDING ones are sorted by id as
-- they are read. The id was half of each entry, and entries without it that are equal are stored once.

-- serves: the list, newest first
create index concurrently transactions_newest on transactions (owner, detected_at desc) where is_settled;
drop index concurrently if exists transactions_user_detected;

-- serves: what is PENDING of the list, and its counts
create index concurrently transactions_pending_of on transactions (owner) where not is_settled;
drop index concurrently if exists transactions_pending_by_time;

-- serves: a user's events after a cursor
create index concurrently events_of_user on events (owner_key(user_id), epoch, written_by);
drop index concurrently if exists events_user_epoch;
