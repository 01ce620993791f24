-- A transaction's hash is of one network alone. Led by it, this is the only index that can serve a look-up by hash: beside it, before
-- anybody has counted the table, every other index that begins with the network seemed as good, and read all of it.

-- serves: transfers of a claim's transaction
create index transfers_hash on transfers (tx_hash);
drop index transfers_tx;
