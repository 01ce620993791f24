-- A lease is added and deleted, hardly ever replaced: no room for second versions.
alter table payment_leases set (fillfactor = 100);

-- What a search reads row by row because the index has not taken it up yet: at most half a megabyte instead of four.
alter index transactions_description set (gin_pending_list_limit = 512);
alter index transactions_reference set (gin_pending_list_limit = 512);

-- Of the links in a page few become PENDING before the versions of others are gone: 14 in a page have as much room as 12 had.
alter table payment_links set (fillfactor = 58);
