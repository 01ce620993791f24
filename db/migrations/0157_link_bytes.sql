-- needs: all processes stopped
-- Addresses of wallets, links and unique amounts and tags of links are bytes, as they are in payments and transfers: half of what they take
-- as text, in a table whose pages keep a third of themselves free. Links are rewritten. Processes of the version before cannot
-- compare them.

alter table pay_amounts drop constraint pay_amounts_wallet_fkey;
alter table payment_links drop constraint payment_links_wallet_fkey;

alter table wallets
  drop constraint wallets_address_check,
  alter column address type bytea using bytes_of(address),
  add constraint wallets_address_check check (octet_length(address) = 20);

alter table pay_amounts
  alter column recipient type bytea using bytes_of(recipient),
  add constraint pay_amounts_wallet_fkey foreign key (network, recipient) references wallets (network, address) on delete cascade not valid;

drop index payment_links_fitting;
drop index payment_links_unique_amount;
alter table payment_links
  drop constraint payment_links_recipient_check,
  drop constraint payment_links_tag_check,
  alter column recipient type bytea using bytes_of(recipient),
  alter column tag type bytea using bytes_of(tag),
  add constraint payment_links_lengths_check check (octet_length(recipient) = 20 and octet_length(tag) = 16),
  add constraint payment_links_wallet_fkey foreign key (network, recipient) references wallets (network, address) on delete cascade not valid;
-- serves: unpaid links that fit a transfer's amount
create index payment_links_fitting on payment_links (address_key(recipient), amount_units, expires_at) where is_unpaid;
-- serves: transfers of a link's unique amount
create index payment_links_unique_amount on payment_links (address_key(recipient), pay_amount_units)
  where is_unpaid and pay_amount_units is not null;

drop function address_key(text);
