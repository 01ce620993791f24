-- serves: a merchant's links that need attention, newest first
create index payment_links_exceptions on payment_links (owner_key(user_id), created_at desc, id desc)
  where exception <> 'NONE' and parent_id is null;
