-- By itself: receipts are read while it is built.
create unique index documents_series_key on documents (user_id, kind, is_test, year, number);
drop index documents_number_key;
