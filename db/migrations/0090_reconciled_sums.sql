-- A wallet's running sum is made in bounded steps, discarded when transfers below it change, and counted again at a low pace.

-- raised by whatever changes transfers at or below booked_number: a sum that was read before is not stored
alter table wallets add column booked_version bigint not null default 0;
-- its sum takes more than one round: due until it was compared
alter table wallets add column is_counting boolean not null default false;
-- the sum that is counted again from the first transfer, and its block
alter table wallets add column recount_units numeric(78, 0);
alter table wallets add column recount_number bigint;
-- serves: wallets whose sum is being made
create index wallets_counting on wallets (network) where is_counting;

-- reorganisations that reached a block up to which sums were made
alter table cursors add column ledger_version bigint not null default 0;
-- the highest block up to which sums may have been made
alter table cursors add column reconciled_number bigint not null default -1;
-- the wallet whose sum was counted again last
alter table cursors add column recounted_wallet text not null default '';
