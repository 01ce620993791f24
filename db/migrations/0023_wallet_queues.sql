-- A million wallets may wait at once (a first start on old data): each queue is read from its front.

-- serves: wallets that have not joined yet
create index wallets_unjoined on wallets (network) where indexed_from is null;
-- serves: wallets whose blocks before they joined are to be read, oldest first
create index wallets_unread on wallets (network, created_at) where backfilled_at is null;
drop index wallets_waiting;
