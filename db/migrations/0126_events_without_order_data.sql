-- The event of a transaction without a link has no order data to look for: every one of a past read in bulk is such an event.
create or replace trigger events_add_order_data before insert on events
  for each row when (
    new.type like 'payment_link.%'
    or (new.type like 'transaction.%' and new.data -> 'linkId' is distinct from 'null'::jsonb)
  )
  execute function add_order_data();
