-- A lease is inserted and deleted, hardly ever updated: its pages need no free space for HOT updates.
alter table payment_leases set (fillfactor = 100);

-- What a search reads row by row because the index has not taken it up yet: at most half a megabyte instead of four.
alter index transactions_description set (gin_pending_list_limit = 512);
alter index transactions_reference set (gin_pending_list_limit = 512);

-- Few links of a page become PENDING before dead versions of the others are pruned: free space for HOT updates of 14 rows a page is enough.
alter table payment_links set (fillfactor = 58);
