-- A batch of payments that were accepted together is signed by one statement: for the updates to stay in their pages (HOT), a page needs
-- room for a second version of nearly all of its rows.
alter table payments set (fillfactor = 55);
alter table relays set (fillfactor = 70);
