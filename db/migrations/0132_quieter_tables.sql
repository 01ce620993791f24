-- Each row is replaced once, when its relay is mined: room for that in its page (HOT).
alter table relay_charges set (fillfactor = 75);

-- Rows that are only added are marked visible by vacuum, which writes a page whole into the log when a checkpoint lies between. By the
-- tables' size, as it is by default, that is nearly every page; so vacuum comes by the number of rows.
alter table events set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 5000);
alter table transfers set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 5000);
alter table documents set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 5000);

-- serves: the differences a reader adds, by 16 bytes of the user's id. Last: writers wait from here on, and the tables are small
drop index link_count_deltas_user;
create index link_count_deltas_owner on link_count_deltas (owner_key(user_id));
drop index transaction_count_deltas_user;
create index transaction_count_deltas_owner on transaction_count_deltas (owner_key(user_id));
