-- A wallet whose balance did not match stays marked until a later comparison clears it, however many others come between.

-- balance on the chain minus what the books say, when last compared
alter table wallets add column difference_units numeric(78, 0) not null default 0;
-- serves: how many differ
create index wallets_differing on wallets (network) where difference_units <> 0;
