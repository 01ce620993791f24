-- Entries of two indexes take 24 and 32 bytes instead of 32 and 48.

-- a number is used once
create unique index concurrently documents_owner_place_key
  on documents (owner_key(user_id), document_place(kind, is_test, year, number));
drop index concurrently if exists documents_owner_series_key;

-- serves: transfers of a link's unique amount
create index concurrently payment_links_unique_amount on payment_links (address_key(recipient), pay_amount_units)
  where is_unpaid and pay_amount_units is not null;
drop index concurrently if exists payment_links_pay_amount;
