-- serves: a merchant's links for one customer, newest first
create index payment_links_customer on payment_links (user_id, customer_email, created_at desc, id desc)
  where customer_email is not null;
