-- Open links are in one index instead of two: each entry is a record of the log when its link is created.

-- serves: is a link of this network open; the job that expires links; links of a user whose time is over and which no job has moved yet
create index concurrently payment_links_open_by_time on payment_links (network, open_until) where open_until is not null;
drop index concurrently if exists payment_links_open;
drop index concurrently if exists payment_links_open_until;
