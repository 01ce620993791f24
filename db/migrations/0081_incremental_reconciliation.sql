-- A wallet is compared with the chain by what its ledger gained since it was compared last, not by its whole life.

-- sum of its transfers up to block booked_number, as compared last
alter table wallets add column booked_units numeric(78, 0) not null default 0;
alter table wallets add column booked_number bigint not null default -1;
