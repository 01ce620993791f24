-- The cell ('*', '*', '*') holds the sum of all cells of a day, as it does of an amount: a list without types, statuses and networks
-- adds a row a day, and one with them reads each cell's days in one stretch.
alter table transaction_counts drop constraint transaction_counts_pkey;
alter table transaction_counts add primary key (user_id, network, type, status, day);
-- serves: which cells a user has
create index transaction_counts_all_time on transaction_counts (user_id) where day = 'infinity';

insert into transaction_counts (user_id, day, network, type, status, count)
select user_id, day, '*', '*', '*', sum(count)
from transaction_counts
group by user_id, day;
