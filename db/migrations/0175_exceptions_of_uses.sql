-- serves: a merchant's links and single payments of reusable links that need attention, newest first
create index concurrently payment_links_exception_any on payment_links (owner_key(user_id), created_at desc, id desc)
  where exception <> 'NONE';
drop index concurrently payment_links_exceptions;
