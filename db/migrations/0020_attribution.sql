-- What deciding by block time needs: a link's end, and quick ways from a log to what it may settle.

-- a transfer mined before the merchant cancelled still counts as a candidate when another link has the same amount
alter table payment_links add column cancelled_at timestamptz;
create function note_cancellation() returns trigger language plpgsql as $$
begin
  new.cancelled_at := now();
  return new;
end $$;
create trigger payment_links_note_cancellation before update of status on payment_links
  for each row when (new.status = 'CANCELLED' and old.status <> 'CANCELLED')
  execute function note_cancellation();
update payment_links set cancelled_at = updated_at where status = 'CANCELLED';

-- serves: which unpaid links does a transfer of this amount to this wallet fit, by the time of its block
create index payment_links_fitting on payment_links (network, recipient, amount_units, expires_at)
  where status <> 'PAID';
drop index payment_links_open;

-- serves: attribution by the hash a payer named, also after the claim's lease
drop index claims_hash;
create index claims_hash on claims (network, tx_hash) where state <> 'REJECTED';
-- serves: claims that wait for the chain
create index claims_open on claims (network) where state = 'OPEN';

-- serves: transfers that wait for their depth
create index transfers_detected on transfers (network, block_number) where status = 'DETECTED';
-- serves: was this authorization executed
create index transfers_authorization on transfers (network, from_address, authorization_nonce)
  where authorization_nonce is not null;
