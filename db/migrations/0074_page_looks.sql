-- The merchant's colour and logo on payment pages, receipts and receipt mails.

alter table merchant_pages
  add column accent text check (accent ~ '^#[0-9a-f]{6}$'),
  -- PNG, encoded by us
  add column logo bytea check (octet_length(logo) between 1 and 65536),
  -- of its bytes; names it in its address
  add column logo_digest text check (logo_digest ~ '^[0-9a-f]{32}$'),
  add constraint merchant_pages_logo_named_check check ((logo is null) = (logo_digest is null));
-- serves: the logo of an address
create index merchant_pages_logo_digest on merchant_pages (logo_digest) where logo_digest is not null;
