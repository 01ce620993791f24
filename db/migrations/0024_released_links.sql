-- A link that lets go of what held it, while a transfer that fits it is booked on it, stays PENDING until the indexer makes that one pay it.

-- serves: the indexer looking for them
create index payment_links_released on payment_links (network) where status = 'PENDING' and exception = 'DUPLICATE';

-- those that were let go before: paid in full once, and asking for it again
update payment_links
set status = 'PENDING', updated_at = now()
where status in ('ACTIVE', 'EXPIRED')
  and exception = 'DUPLICATE'
  and exists (
    select from transfers
    where transfers.link_id = payment_links.id
      and not transfers.pays
      and transfers.status <> 'ORPHANED'
      and transfers.amount_units = payment_links.amount_units
  );
