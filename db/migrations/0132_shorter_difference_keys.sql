-- Each row is replaced once, when its relay is mined: room for that in its page (HOT).
alter table relay_charges set (fillfactor = 75);

-- serves: the differences a reader adds, by 16 bytes of the user's id. Last: writers wait from here on, and the tables are small
drop index link_count_deltas_user;
create index link_count_deltas_owner on link_count_deltas (owner_key(user_id));
drop index transaction_count_deltas_user;
create index transaction_count_deltas_owner on transaction_count_deltas (owner_key(user_id));
